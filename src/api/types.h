#ifndef VRAM_MACROS_ONLY /* to have the compile-time region alone, without any include */

/* >>types =====================================================================================
   Results, errors, memory. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#ifndef VRAM_API
#ifdef VRAM_STATIC
#if defined(__GNUC__) || defined(__clang__)
#define VRAM_API static __attribute__((unused))
#else
#define VRAM_API static
#endif
#elif defined(__cplusplus)
#define VRAM_API extern "C"
#else
#define VRAM_API extern
#endif
#endif

/* vram_step_options o = VRAM_ZERO_INIT; every field has its default, in C and in C++ */
#ifdef __cplusplus
#define VRAM_ZERO_INIT                                                                             \
  {}
#else
#define VRAM_ZERO_INIT                                                                             \
  { 0 }
#endif

/* A prefix for every function, so that copies of different versions live in one program: with
     #define VRAM_NAMESPACE mylib_
   before every include, vram_parse is written as ever and linked as mylib_vram_parse. */
#ifdef VRAM_NAMESPACE
#define VRAM__JOIN_(a, b) a##b
#define VRAM__JOIN(a, b) VRAM__JOIN_(a, b)
#define vram_bytes_text VRAM__JOIN(VRAM_NAMESPACE, vram_bytes_text)
#define vram_arena_bytes VRAM__JOIN(VRAM_NAMESPACE, vram_arena_bytes)
#define vram_arena_order_name VRAM__JOIN(VRAM_NAMESPACE, vram_arena_order_name)
#define vram_arena_plan VRAM__JOIN(VRAM_NAMESPACE, vram_arena_plan)
#define vram_arena_verify VRAM__JOIN(VRAM_NAMESPACE, vram_arena_verify)
#define vram_hold_name VRAM__JOIN(VRAM_NAMESPACE, vram_hold_name)
#define vram_binding_events VRAM__JOIN(VRAM_NAMESPACE, vram_binding_events)
#define vram_chain_hash VRAM__JOIN(VRAM_NAMESPACE, vram_chain_hash)
#define vram_chain_key VRAM__JOIN(VRAM_NAMESPACE, vram_chain_key)
#define vram_chain_cut VRAM__JOIN(VRAM_NAMESPACE, vram_chain_cut)
#define vram_chain_cut_bytes VRAM__JOIN(VRAM_NAMESPACE, vram_chain_cut_bytes)
#define vram_chain_measure VRAM__JOIN(VRAM_NAMESPACE, vram_chain_measure)
#define vram_chain_measure_arena VRAM__JOIN(VRAM_NAMESPACE, vram_chain_measure_arena)
#define vram_chain_measure_bytes VRAM__JOIN(VRAM_NAMESPACE, vram_chain_measure_bytes)
#define vram_chain_run VRAM__JOIN(VRAM_NAMESPACE, vram_chain_run)
#define vram_chain_run_bytes VRAM__JOIN(VRAM_NAMESPACE, vram_chain_run_bytes)
#define vram_move_name VRAM__JOIN(VRAM_NAMESPACE, vram_move_name)
#define vram_planner_name VRAM__JOIN(VRAM_NAMESPACE, vram_planner_name)
#define vram_schedule_bind VRAM__JOIN(VRAM_NAMESPACE, vram_schedule_bind)
#define vram_schedule_bind_bytes VRAM__JOIN(VRAM_NAMESPACE, vram_schedule_bind_bytes)
#define vram_schedule_bytes VRAM__JOIN(VRAM_NAMESPACE, vram_schedule_bytes)
#define vram_schedule_plan VRAM__JOIN(VRAM_NAMESPACE, vram_schedule_plan)
#define vram_schedule_spans VRAM__JOIN(VRAM_NAMESPACE, vram_schedule_spans)
#define vram_schedule_svg_bytes VRAM__JOIN(VRAM_NAMESPACE, vram_schedule_svg_bytes)
#define vram_schedule_verify VRAM__JOIN(VRAM_NAMESPACE, vram_schedule_verify)
#define vram_schedule_verify_bytes VRAM__JOIN(VRAM_NAMESPACE, vram_schedule_verify_bytes)
#define vram_dtype_bytes VRAM__JOIN(VRAM_NAMESPACE, vram_dtype_bytes)
#define vram_dtype_from_ggml_id VRAM__JOIN(VRAM_NAMESPACE, vram_dtype_from_ggml_id)
#define vram_dtype_from_name VRAM__JOIN(VRAM_NAMESPACE, vram_dtype_from_name)
#define vram_dtype_from_name_n VRAM__JOIN(VRAM_NAMESPACE, vram_dtype_from_name_n)
#define vram_dtype_from_onnx_id VRAM__JOIN(VRAM_NAMESPACE, vram_dtype_from_onnx_id)
#define vram_dtype_from_tflite_id VRAM__JOIN(VRAM_NAMESPACE, vram_dtype_from_tflite_id)
#define vram_dtype_get_info VRAM__JOIN(VRAM_NAMESPACE, vram_dtype_get_info)
#define vram_dtype_name VRAM__JOIN(VRAM_NAMESPACE, vram_dtype_name)
#define vram_dtype_rows_bytes VRAM__JOIN(VRAM_NAMESPACE, vram_dtype_rows_bytes)
#define vram_format_name VRAM__JOIN(VRAM_NAMESPACE, vram_format_name)
#define vram_kernels_name VRAM__JOIN(VRAM_NAMESPACE, vram_kernels_name)
#define vram_line_args VRAM__JOIN(VRAM_NAMESPACE, vram_line_args)
#define vram_line_name VRAM__JOIN(VRAM_NAMESPACE, vram_line_name)
#define vram_net_lower VRAM__JOIN(VRAM_NAMESPACE, vram_net_lower)
#define vram_net_lower_bytes VRAM__JOIN(VRAM_NAMESPACE, vram_net_lower_bytes)
#define vram_net_count VRAM__JOIN(VRAM_NAMESPACE, vram_net_count)
#define vram_net_plan VRAM__JOIN(VRAM_NAMESPACE, vram_net_plan)
#define vram_net_plan_bytes VRAM__JOIN(VRAM_NAMESPACE, vram_net_plan_bytes)
#define vram_net_read VRAM__JOIN(VRAM_NAMESPACE, vram_net_read)
#define vram_net_read_bytes VRAM__JOIN(VRAM_NAMESPACE, vram_net_read_bytes)
#define vram_padding_name VRAM__JOIN(VRAM_NAMESPACE, vram_padding_name)
#define vram_gpu_at VRAM__JOIN(VRAM_NAMESPACE, vram_gpu_at)
#define vram_graph_init VRAM__JOIN(VRAM_NAMESPACE, vram_graph_init)
#define vram_drop VRAM__JOIN(VRAM_NAMESPACE, vram_drop)
#define vram_node_flops VRAM__JOIN(VRAM_NAMESPACE, vram_node_flops)
#define vram_node_name VRAM__JOIN(VRAM_NAMESPACE, vram_node_name)
#define vram_out VRAM__JOIN(VRAM_NAMESPACE, vram_out)
#define vram_output VRAM__JOIN(VRAM_NAMESPACE, vram_output)
#define vram_apply VRAM__JOIN(VRAM_NAMESPACE, vram_apply)
#define vram_input VRAM__JOIN(VRAM_NAMESPACE, vram_input)
#define vram_action_name VRAM__JOIN(VRAM_NAMESPACE, vram_action_name)
#define vram_category_name VRAM__JOIN(VRAM_NAMESPACE, vram_category_name)
#define vram_phase_name VRAM__JOIN(VRAM_NAMESPACE, vram_phase_name)
#define vram_ledger_bytes VRAM__JOIN(VRAM_NAMESPACE, vram_ledger_bytes)
#define vram_ledger_category_at_peak VRAM__JOIN(VRAM_NAMESPACE, vram_ledger_category_at_peak)
#define vram_ledger_event VRAM__JOIN(VRAM_NAMESPACE, vram_ledger_event)
#define vram_ledger_find VRAM__JOIN(VRAM_NAMESPACE, vram_ledger_find)
#define vram_ledger_init VRAM__JOIN(VRAM_NAMESPACE, vram_ledger_init)
#define vram_ledger_live VRAM__JOIN(VRAM_NAMESPACE, vram_ledger_live)
#define vram_ledger_mark VRAM__JOIN(VRAM_NAMESPACE, vram_ledger_mark)
#define vram_ledger_owner VRAM__JOIN(VRAM_NAMESPACE, vram_ledger_owner)
#define vram_ledger_owner_at_peak VRAM__JOIN(VRAM_NAMESPACE, vram_ledger_owner_at_peak)
#define vram_ledger_owners VRAM__JOIN(VRAM_NAMESPACE, vram_ledger_owners)
#define vram_ledger_reset_accumulated VRAM__JOIN(VRAM_NAMESPACE, vram_ledger_reset_accumulated)
#define vram_ledger_reset_peak VRAM__JOIN(VRAM_NAMESPACE, vram_ledger_reset_peak)
#define vram_ledger_stats VRAM__JOIN(VRAM_NAMESPACE, vram_ledger_stats)
#define vram_ledger_take VRAM__JOIN(VRAM_NAMESPACE, vram_ledger_take)
#define vram_pool_alloc VRAM__JOIN(VRAM_NAMESPACE, vram_pool_alloc)
#define vram_pool_bytes VRAM__JOIN(VRAM_NAMESPACE, vram_pool_bytes)
#define vram_pool_config VRAM__JOIN(VRAM_NAMESPACE, vram_pool_config)
#define vram_pool_empty_cache VRAM__JOIN(VRAM_NAMESPACE, vram_pool_empty_cache)
#define vram_pool_find VRAM__JOIN(VRAM_NAMESPACE, vram_pool_find)
#define vram_pool_free VRAM__JOIN(VRAM_NAMESPACE, vram_pool_free)
#define vram_pool_init VRAM__JOIN(VRAM_NAMESPACE, vram_pool_init)
#define vram_pool_largest_free VRAM__JOIN(VRAM_NAMESPACE, vram_pool_largest_free)
#define vram_pool_record_stream VRAM__JOIN(VRAM_NAMESPACE, vram_pool_record_stream)
#define vram_pool_walk VRAM__JOIN(VRAM_NAMESPACE, vram_pool_walk)
#define vram_region_begin VRAM__JOIN(VRAM_NAMESPACE, vram_region_begin)
#define vram_region_end VRAM__JOIN(VRAM_NAMESPACE, vram_region_end)
#define vram_op_get_info VRAM__JOIN(VRAM_NAMESPACE, vram_op_get_info)
#define vram_op_name VRAM__JOIN(VRAM_NAMESPACE, vram_op_name)
#define vram_optimizer_from_name VRAM__JOIN(VRAM_NAMESPACE, vram_optimizer_from_name)
#define vram_optimizer_get_info VRAM__JOIN(VRAM_NAMESPACE, vram_optimizer_get_info)
#define vram_parse VRAM__JOIN(VRAM_NAMESPACE, vram_parse)
#define vram_parse_bytes VRAM__JOIN(VRAM_NAMESPACE, vram_parse_bytes)
#define vram_ranges VRAM__JOIN(VRAM_NAMESPACE, vram_ranges)
#define vram_report_term VRAM__JOIN(VRAM_NAMESPACE, vram_report_term)
#define vram_result_text VRAM__JOIN(VRAM_NAMESPACE, vram_result_text)
#define vram_solve VRAM__JOIN(VRAM_NAMESPACE, vram_solve)
#define vram_source_name VRAM__JOIN(VRAM_NAMESPACE, vram_source_name)
#define vram_step VRAM__JOIN(VRAM_NAMESPACE, vram_step)
#define vram_step_bytes VRAM__JOIN(VRAM_NAMESPACE, vram_step_bytes)
#define vram_step_live VRAM__JOIN(VRAM_NAMESPACE, vram_step_live)
#define vram_step_plan VRAM__JOIN(VRAM_NAMESPACE, vram_step_plan)
#define vram_step_plan_free VRAM__JOIN(VRAM_NAMESPACE, vram_step_plan_free)
#define vram_svg_bytes VRAM__JOIN(VRAM_NAMESPACE, vram_svg_bytes)
#define vram_timeline_add VRAM__JOIN(VRAM_NAMESPACE, vram_timeline_add)
#define vram_timeline_bytes VRAM__JOIN(VRAM_NAMESPACE, vram_timeline_bytes)
#define vram_timeline_init VRAM__JOIN(VRAM_NAMESPACE, vram_timeline_init)
#define vram_timeline_ledger VRAM__JOIN(VRAM_NAMESPACE, vram_timeline_ledger)
#define vram_write_csv VRAM__JOIN(VRAM_NAMESPACE, vram_write_csv)
#define vram_write_log VRAM__JOIN(VRAM_NAMESPACE, vram_write_log)
#define vram_write_oom VRAM__JOIN(VRAM_NAMESPACE, vram_write_oom)
#define vram_write_schedule_svg VRAM__JOIN(VRAM_NAMESPACE, vram_write_schedule_svg)
#define vram_write_snapshot VRAM__JOIN(VRAM_NAMESPACE, vram_write_snapshot)
#define vram_write_summary VRAM__JOIN(VRAM_NAMESPACE, vram_write_summary)
#define vram_write_svg VRAM__JOIN(VRAM_NAMESPACE, vram_write_svg)
#define vram_write_trace VRAM__JOIN(VRAM_NAMESPACE, vram_write_trace)
#endif

#define VRAM_MAX_AXES 8            /* axes of a tensor */
#define VRAM_MAX_DIMS 64           /* symbolic dimensions of a model */
#define VRAM_MAX_NAME 255          /* bytes of a name */
#define VRAM_MAX_NODES 16777216u   /* nodes of a model, loops written out */
#define VRAM_MAX_BYTES (INT64_MAX) /* any total, in bytes */
#define VRAM_MAX_LOOPS 16          /* loops inside one another */
#define VRAM_MAX_NESTED 128        /* checkpointed ranges inside one another */
#define VRAM_OVERFLOW UINT64_MAX   /* what a byte count becomes that does not fit */

#define VRAM_RESULTS(X)                                                                            \
  X(OK, "ok")                                                                                      \
  X(ERR_SYNTAX, "the text form is malformed")                                                      \
  X(ERR_NAME, "a name is unknown or defined twice")                                                \
  X(ERR_SHAPE, "shapes do not fit")                                                                \
  X(ERR_VALUE, "a value is out of range")                                                          \
  X(ERR_LIMIT, "a limit of the library is exceeded")                                               \
  X(ERR_OVERFLOW, "a size does not fit into 63 bits")                                              \
  X(ERR_MEMORY, "the caller's memory is too small")                                                \
  X(ERR_UNSUPPORTED, "not possible with these options")                                            \
  X(ERR_DTYPE, "no such dtype")                                                                    \
  X(ERR_BLOCK, "a row that does not divide into blocks")                                           \
  X(ERR_WRITE, "the sink takes no more")                                                           \
  X(ERR_CALL, "a function of the caller failed")

typedef enum vram_result {
#define VRAM__X(id, text) VRAM_##id,
  VRAM_RESULTS(VRAM__X)
#undef VRAM__X
      VRAM_RESULT_COUNT
} vram_result;

/* What went wrong and where. `line` and `column` count from 1; 0: not from a text. */
typedef struct vram_error {
  vram_result code;
  uint32_t line, column;
  char text[240]; /* one line, without the position; always terminated */
} vram_error;

/* What a result means, in a few words. Never NULL. */
VRAM_API const char *vram_result_text(vram_result r);


/* --parallel SPEC: every strategy and option, what is wrong and where, places in the mesh. */
#include "../vram.h"

#include "test.h"

static vram_parallel parsed(const char *text) {
  vram_parallel p;
  vram_error e;
  snprintf(test_where, sizeof test_where, "%s", text);
  EQUAL(vram_parallel_parse(text, &p, &e), VRAM_OK);
  EQUAL(e.code, VRAM_OK);
  return p;
}

static void test_options(void) {
  vram_parallel p = parsed("ddp=8");
  EQUAL(p.wrapper, VRAM_WRAPPER_DDP);
  EQUAL(p.dp, 8);
  EQUAL(p.bucket_cap_bytes, 0);
  CHECK(p.broadcast_buffers && !p.static_graph && !p.gradient_as_bucket_view && !p.hook);
  p = parsed("ddp=3,bucket_cap_mb=0.5,gradient_as_bucket_view=1,static_graph=1,broadcast_buffers=0,"
             "find_unused_parameters=1,hook=fp16");
  EQUAL(p.bucket_cap_bytes, 1 << 19);
  CHECK(!p.broadcast_buffers && p.static_graph && p.gradient_as_bucket_view &&
        p.find_unused_parameters);
  EQUAL(p.hook, VRAM_F16);
  p = parsed("zero1=4,parameters_as_bucket_view=1,bucket_cap_mb=1");
  EQUAL(p.wrapper, VRAM_WRAPPER_ZERO1);
  CHECK(p.parameters_as_bucket_view);
  p = parsed(
      "hsdp=2x4,mp=bf16,reduce=f32,reshard=0,units=a.*|b,init=meta,cpu_offload=1,prefetch=2");
  EQUAL(p.wrapper, VRAM_WRAPPER_FSDP2);
  EQUAL(p.copies, 2);
  EQUAL(p.dp, 4);
  EQUAL(p.mp, VRAM_BF16);
  EQUAL(p.reduce, VRAM_F32);
  EQUAL(p.reshard, VRAM_RESHARD_NEVER);
  EQUAL(p.prefetch, 2);
  CHECK(p.units.len == 5 && !memcmp(p.units.text, "a.*|b", 5) && p.meta && p.cpu_offload);
  EQUAL(parsed("fsdp2=8,reshard=4").reshard_ranks, 4);
  EQUAL(parsed("fsdp1=8,sharding=SHARD_GRAD_OP").sharding, VRAM_SHARDING_GRAD_OP);
  EQUAL(parsed("fsdp1=8,backward_prefetch=none").backward_prefetch, VRAM_PREFETCH_NONE);
  p = parsed("pp=4,schedule=ZBVZeroBubble,microbatches=12,return_outputs=1+ddp=2");
  EQUAL(p.schedule, VRAM_PIPELINE_ZBV_ZERO_BUBBLE);
  EQUAL(p.microbatches, 12);
  CHECK(p.return_outputs);
  EQUAL(vram_parallel_world(&p), 8);
  p = parsed("ds3=64,reduce_bucket_size=20000000,offload_optimizer=cpu,offload_param=none");
  EQUAL(p.reduce_bucket_size, 20000000);
  CHECK(p.overlap_comm == 1 && p.offload_optimizer && !p.offload_param && p.bf16);
  EQUAL(parsed("ds2=4,round_robin_gradients=1").overlap_comm, 0);
  EQUAL(parsed("ds3=4,overlap_comm=0").overlap_comm, 0);
  p = parsed("ep=4,bucket_cap_mb=1");
  EQUAL(p.wrapper, VRAM_WRAPPER_DDP);
  EQUAL(vram_parallel_world(&p), 4);
  CHECK(parsed("tp=4,sp=1,loss_parallel=1").loss_parallel);
}

static void test_places(void) {
  vram_parallel p = parsed("pp=2+hsdp=2x3+cp=2+tp=5");
  vram_parallel_place at;
  uint32_t i;
  EQUAL(vram_parallel_world(&p), 120);
  for (i = 0; i < 120; i++) {
    p.rank = i;
    at = vram_parallel_place_of(&p);
    EQUAL((((at.pp * 2 + at.copy) * 3 + at.dp) * 2 + at.cp) * 5 + at.tp, i);
    CHECK(at.pp < 2 && at.copy < 2 && at.dp < 3 && at.cp < 2 && at.tp < 5);
  }
  p = parsed("pp=1048576+ddp=1048576+tp=1048576+cp=1048576");
  EQUAL(vram_parallel_world(&p), VRAM_OVERFLOW);
  EQUAL(strcmp(vram_wrapper_name(VRAM_WRAPPER_DS3), "ds3"), 0);
  EQUAL(strcmp(vram_wrapper_name(VRAM_WRAPPER_NONE), "?"), 0);
  EQUAL(strcmp(vram_pipeline_name(VRAM_PIPELINE_DUAL_PIPE_V), "DualPipeV"), 0);
  EQUAL(strcmp(vram_pipeline_name(VRAM_PIPELINE_COUNT), "?"), 0);
}

static void test_wrong(void) {
  static const struct {
    const char *text;
    vram_result code;
    uint32_t column;
    const char *says;
  } wrong[] = {
      {"", VRAM_ERR_SYNTAX, 1, "no strategy (expected NAME=SIZE: ddp=8, tp=2)"},
      {"ddp=2+", VRAM_ERR_SYNTAX, 7, "no strategy (expected NAME=SIZE: ddp=8, tp=2)"},
      {"fsdp=2", VRAM_ERR_NAME, 1, "unknown strategy 'fsdp': the nearest is fsdp1"},
      {"ddp", VRAM_ERR_SYNTAX, 1, "a strategy without its ranks: 'ddp' (expected NAME=SIZE)"},
      {"ddp=0", VRAM_ERR_VALUE, 5, "a number of ranks: '0' (expected 1 to 1048576)"},
      {"ddp=1048577", VRAM_ERR_VALUE, 5, "a number of ranks: '1048577' (expected 1 to 1048576)"},
      {"hsdp=8", VRAM_ERR_VALUE, 6, "ranks of hsdp: '8' (expected COPIESxSHARDS: 2x4)"},
      {"tp=2+tp=2", VRAM_ERR_VALUE, 6, "a strategy twice 'tp'"},
      {"tp=2,sp", VRAM_ERR_SYNTAX, 6, "an option without a value: 'sp' (expected NAME=VALUE)"},
      {"tp=2,sp=2", VRAM_ERR_VALUE, 9, "sp '2' (expected 0 or 1)"},
      {"ddp=2,hook=i8", VRAM_ERR_VALUE, 12, "hook 'i8' (expected bf16, fp16 or f32)"},
      {"ddp=2,sp=1", VRAM_ERR_NAME, 7, "no option of this strategy: 'sp': the nearest is hook"},
      {"ds1=2,reduce_bucket_size=99999999999999999999", VRAM_ERR_VALUE, 26,
       "reduce_bucket_size '99999999999999999999' (expected a number of elements)"},
  };
  size_t i;
  for (i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    vram_parallel p;
    vram_error e;
    snprintf(test_where, sizeof test_where, "%s", wrong[i].text);
    EQUAL(vram_parallel_parse(wrong[i].text, &p, &e), wrong[i].code);
    EQUAL(vram_parallel_parse(wrong[i].text, &p, NULL), wrong[i].code);
    EQUAL(e.column, wrong[i].column);
    TEXT(e.text, wrong[i].says);
  }
}

int main(void) {
  test_options();
  test_places();
  test_wrong();
  return test_done("test_parallel");
}

#endif /* VRAM_MACROS_ONLY */
#endif /* VRAM_H_INCLUDED */

#if defined(VRAM_IMPLEMENTATION) && !defined(VRAM_IMPLEMENTATION_INCLUDED)
#define VRAM_IMPLEMENTATION_INCLUDED

/* a function that is seldom called: out of the way of those that are */
#if defined(__GNUC__) || defined(__clang__)
#define VRAM__RARE static __attribute__((noinline, cold))
#define VRAM__PART static inline __attribute__((always_inline)) /* of its few callers */
#else
#define VRAM__RARE static
#define VRAM__PART static inline
#endif

/* What does not run for every node of every step is compiled for a short build: it is most of the
   code and takes little of the time. What runs once, when a graph is built, still more so. */
#if defined(__OPTIMIZE__) && defined(__clang__)
#define VRAM__SELDOM_BEGIN _Pragma("clang optimize off")
#define VRAM__SELDOM_END _Pragma("clang optimize on")
#define VRAM__ONCE_BEGIN VRAM__SELDOM_BEGIN
#define VRAM__ONCE_END VRAM__SELDOM_END
#elif defined(__OPTIMIZE__) && defined(__GNUC__) && !defined(__OPTIMIZE_SIZE__)
#define VRAM__SELDOM_BEGIN _Pragma("GCC push_options") _Pragma("GCC optimize(\"Og\")")
#define VRAM__SELDOM_END _Pragma("GCC pop_options")
#define VRAM__ONCE_BEGIN _Pragma("GCC push_options") _Pragma("GCC optimize(\"O0\")")
#define VRAM__ONCE_END VRAM__SELDOM_END
#else
#define VRAM__SELDOM_BEGIN
#define VRAM__SELDOM_END
#define VRAM__ONCE_BEGIN
#define VRAM__ONCE_END
#endif


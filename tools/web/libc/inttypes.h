/* Of WebAssembly's 32 bits. */
#ifndef WEB_INTTYPES_H
#define WEB_INTTYPES_H
#include <stdint.h>
#define PRIu32 "u"
#define PRId32 "d"
#define PRIx32 "x"
#define PRIX32 "X"
#define PRIu64 "llu"
#define PRId64 "lld"
#define PRIi64 "lli"
#define PRIx64 "llx"
#define PRIX64 "llX"
#endif

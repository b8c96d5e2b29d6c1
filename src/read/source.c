/* >>read/source    the bytes of a file, from front to back */
#include "read/read.h"

/* Sets r up for the source; the window of those that are not in memory themselves comes from the
   file's. */
VRAM__FN vram_result vram__reader_begin(vram__reader *r, vram_file *f, const vram_file_source *s,
                                        vram_error *e) {
  vram__memory_zero(r, sizeof *r);
  vram__error_clear(e);
  r->source = s;
  r->error = e;
  if (s->data) {
    r->at = (const uint8_t *)s->data;
    r->end = r->at + s->bytes;
    r->end_offset = s->bytes;
    return VRAM_OK;
  }
  if (!s->read)
    return vram__reader_fail(r, VRAM_ERR_VALUE, 0, "a source without data and without read");
  r->window_bytes = VRAM_READ_WINDOW;
  if (!f->window)
    f->window = (uint8_t *)vram__file_take(f, r, r->window_bytes);
  r->window = f->window;
  r->at = r->end = r->window;
  return r->result;
}

/* Fails with an error at an offset; only the first error is told. */
VRAM__FN vram_result vram__reader_fail(vram__reader *r, vram_result code, uint64_t offset,
                                       const char *text) {
  if (r->result)
    return r->result;
  r->result = code;
  r->at = r->end;
  vram__error_begin(r->error, code, 0, text);
  if (r->error) {
    r->error->offset = offset;
    r->error->has_offset = 1;
  }
  return code;
}

/* The file ends inside of something. */
static vram_result vram__reader_short(vram__reader *r, uint64_t bytes, const char *what) {
  const uint64_t offset = vram__reader_offset(r), left = vram__reader_left(r);
  if (!r->result) {
    vram__reader_fail(r, VRAM_ERR_SYNTAX, offset, "the file ends in ");
    vram__error_text(r->error, what);
    vram__error_number(r->error, ": ", left);
    vram__error_number(
        r->error, left == 1 ? " byte is left, expected " : " bytes are left, expected ", bytes);
  }
  return r->result;
}

/* Moves the window on until the next bytes are in it. */
VRAM__FN vram_result vram__reader_fill(vram__reader *r, uint64_t bytes, const char *what) {
  const uint64_t kept = (uint64_t)(r->end - r->at);
  uint64_t more = r->source->bytes - r->end_offset;
  vram_result result;
  if (r->result || kept >= bytes)
    return r->result;
  if (bytes - kept > more || !r->window)
    return vram__reader_short(r, bytes, what);
  VRAM_ASSERT(bytes <= r->window_bytes);
  vram__memory_copy(r->window, r->at, kept); /* towards the front */
  if (more > r->window_bytes - kept)
    more = r->window_bytes - kept;
  result = r->source->read(r->source->user, r->end_offset, r->window + kept, more);
  if (result) {
    r->at = r->end = r->window;
    return vram__reader_fail(r, result, r->end_offset, "cannot be read");
  }
  r->at = r->window;
  r->end = r->window + kept + more;
  r->end_offset += more;
  return VRAM_OK;
}

/* The next bytes are those from an offset within the file on. */
VRAM__FN void vram__reader_seek(vram__reader *r, uint64_t offset) {
  const uint8_t *const begin = r->window ? r->window : (const uint8_t *)r->source->data;
  const uint64_t first = r->end_offset - (uint64_t)(r->end - begin);
  if (r->result)
    return;
  if (offset >= first && offset <= r->end_offset)
    r->at = begin + (offset - first);
  else { /* not in the window */
    r->end_offset = offset;
    r->at = r->end = r->window;
  }
}

VRAM__FN vram_result vram__reader_skip(vram__reader *r, uint64_t bytes, const char *what) {
  const uint64_t here = (uint64_t)(r->end - r->at);
  if (r->result)
    return r->result;
  if (bytes > vram__reader_left(r))
    return vram__reader_short(r, bytes, what);
  if (bytes <= here) {
    r->at += bytes;
    return VRAM_OK;
  }
  r->end_offset += bytes - here; /* nothing of it is read */
  r->at = r->end = r->window;
  return VRAM_OK;
}

VRAM__FN vram_result vram__reader_copy(vram__reader *r, void *to, uint64_t bytes,
                                       const char *what) {
  uint8_t *p = (uint8_t *)to;
  if (r->result)
    return r->result;
  if (bytes > vram__reader_left(r))
    return vram__reader_short(r, bytes, what);
  while (bytes) {
    uint64_t n = (uint64_t)(r->end - r->at);
    if (!n && vram__reader_fill(r, 1, what))
      return r->result;
    n = (uint64_t)(r->end - r->at);
    if (n > bytes)
      n = bytes;
    vram__memory_copy(p, r->at, n);
    r->at += n, p += n, bytes -= n;
  }
  return VRAM_OK;
}

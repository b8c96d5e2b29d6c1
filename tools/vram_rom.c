/* --rom: which memory the constants of each line are read from, for estimate --embedded and emit.
 */
#include "vram_model.h"
#include "vram_net.h"

static const char rom_expected[] =
    "NAME=SIZE, as XIP=8MiB; 0: without a limit; NAME=SIZE:FROM: RAM, copied from FROM at start; "
    "at most 8";

/* The memory of that name; as many as there are: none. */
static uint32_t rom_find(const net_roms *r, const char *name) {
  uint32_t i;
  for (i = 0; i < r->o.nbank && !net_same_name(r->name[i], name); i++)
    ;
  return i;
}

int net_rom(net_roms *r, const char *v) {
  const char *const is = strchr(v, '='), *const from = is ? strchr(is, ':') : NULL;
  const uint32_t k = r->o.nbank;
  char size[32];
  size_t n = is ? (size_t)(is - v) : 0, i, len = is ? strlen(is + 1) : 0;
  if (from)
    len = (size_t)(from - is - 1);
  if (k == VRAM_ARENA_BANKS || !n || n >= sizeof *r->name || (*v >= '0' && *v <= '9') ||
      len >= sizeof size || (from && (!from[1] || strlen(from + 1) >= sizeof *r->from)))
    return cmd_bad("not a memory", v, rom_expected), 0;
  for (i = 0; i < n; i++)
    if (!cmd_is_word(v[i]))
      return cmd_bad("not a memory", v, rom_expected), 0;
  snprintf(r->name[k], sizeof *r->name, "%.*s", (int)n, v);
  snprintf(r->from[k], sizeof *r->from, "%s", from ? from + 1 : "");
  snprintf(size, sizeof size, "%.*s", (int)len, is + 1);
  if (rom_find(r, r->name[k]) < k)
    return cmd_bad("a second memory of that name", v, NULL), 0;
  if (!cmd_parse_size(size, &r->o.capacity[k]))
    return cmd_bad("not a memory", v, rom_expected), 0;
  if (!r->o.capacity[k])
    r->o.capacity[k] = VRAM_MAX_BYTES;
  r->o.nbank++;
  return 1;
}

int net_roms_check(net_roms *r, const net_banks *b) {
  uint32_t i, k;
  for (i = 0; i < r->o.nbank; i++) {
    if (*r->from[i]) {
      const uint32_t at = rom_find(r, r->from[i]);
      if (at == r->o.nbank || at <= i || *r->from[at])
        return cmd_bad("copied from what is no later --rom that keeps it:", r->from[i], NULL);
      r->o.image[i] = at + 1;
    }
    for (k = 0; k < b->o.nbank; k++)
      if (net_same_name(b->name[k], r->name[i]) && !*r->from[i])
        return cmd_bad("RAM keeps no constants:", r->name[i], "NAME=SIZE:FROM, copied at start");
  }
  return FITS;
}

/* A memory that is a bank, too, has what the buffers leave of it. */
static void roms_beside_banks(net_roms *r, const net_banks *b, const vram_net *net) {
  uint32_t i, k;
  for (i = 0; i < r->o.nbank; i++)
    for (k = 0; k < b->o.nbank; k++)
      if (b->o.capacity[k] && net_same_name(b->name[k], r->name[i])) {
        const uint64_t used = b->o.nbank > 1 ? net->arena.bank_bytes[k] : net->arena.height_bytes;
        const uint64_t left = b->o.capacity[k] > used ? b->o.capacity[k] - used : 0;
        if (left / r->unit * r->unit < r->o.capacity[i])
          r->o.capacity[i] = left / r->unit * r->unit;
      }
}

int net_roms_add(net_roms *r, const char *name, uint32_t number, const vram_net_line *l,
                 uint64_t bytes) {
  const uint32_t more = r->count ? 2 * r->count : 32;
  rom_constant *c;
  if (!r->constant || (r->count >= 32 && !(r->count & (r->count - 1)))) { /* it is full */
    c = (rom_constant *)realloc(r->constant, more * sizeof *c);
    if (!c)
      return cmd_no_memory();
    r->constant = c;
  }
  c = r->constant + r->count++;
  memset(c, 0, sizeof *c);
  snprintf(c->name, sizeof c->name, "%s", name);
  c->number = number;
  c->bytes = bytes;
  c->accesses = l ? l->weight_reads : bytes;
  return FITS;
}

void net_roms_end(net_roms *r) {
  free(r->constant);
  r->constant = NULL;
  r->count = 0;
}

/* Constants as lines count them. */
static int roms_of_lines(net_roms *r, const vram_net *net) {
  uint32_t i;
  int status = FITS;
  r->unit = 4;
  for (i = 0; i + 1 < net->nline && !status; i++) {
    const vram_net_line *const l = net->line + i;
    if (l->format == VRAM_FORMAT_I16)
      r->unit = 8;
    if (l->flash_bytes)
      status = net_roms_add(r, l->y, i, l, l->flash_bytes);
  }
  return status;
}

static int roms_too_large(const net_roms *r, const char *path, uint64_t total,
                          const vram_error *err) {
  char list[256];
  size_t n = 0;
  uint32_t i, kept = 0;
  for (i = 0; i < r->o.nbank; i++)
    if (!r->o.image[i] && n < sizeof list)
      n += (size_t)snprintf(list + n, sizeof list - n, "%s%s %" PRIu64, kept++ ? ", " : "",
                            r->name[i], r->o.capacity[i]);
  if (err->line)
    cmd_say("%s: the constants of %s, %" PRIu64 " bytes, are larger than each memory (%s): do not "
            "fit by %" PRIu64,
            path, r->constant[err->line - 1].name, r->constant[err->line - 1].bytes, list,
            r->rom.over_bytes);
  else if (r->rom.over_bytes)
    cmd_say("%s: constants of %" PRIu64 " bytes (%s): do not fit by %" PRIu64, path, total, list,
            r->rom.over_bytes);
  else
    cmd_say("%s: constants of %" PRIu64 " bytes (%s): %s", path, total, list, err->text);
  return TOO_LARGE;
}

/* Which memory each constant is in. */
static int roms_choose(net_roms *r, const char *path) {
  const size_t n = (size_t)r->count + 1;
  uint64_t *const bytes = (uint64_t *)malloc(n * (2 * sizeof *bytes + sizeof(uint32_t)));
  uint64_t *accesses, need, total = 0;
  uint32_t *memory, i;
  vram_error err;
  void *scratch;
  int status = FITS;
  if (!bytes)
    return cmd_no_memory();
  accesses = bytes + n;
  memory = (uint32_t *)(void *)(accesses + n);
  for (i = 0; i < r->count; i++) {
    total += bytes[i] = r->constant[i].bytes;
    accesses[i] = r->constant[i].accesses;
  }
  need = vram_rom_bytes(bytes, r->count);
  scratch = need <= (uint64_t)(size_t)-1 ? malloc((size_t)need) : NULL;
  if (!scratch)
    status = cmd_no_memory();
  else if (!vram_rom_place(bytes, accesses, r->count, &r->o, scratch, need, memory, &r->rom, &err))
    for (i = 0; i < r->count; i++)
      r->constant[i].memory = memory[i];
  else if (err.code == VRAM_ERR_LIMIT)
    status = roms_too_large(r, path, total, &err);
  else
    status = cmd_bad(err.text, NULL, NULL);
  free(scratch);
  free(bytes);
  return status;
}

int net_roms_place(net_roms *r, const net_banks *b, const vram_net *net, const char *path,
                   int of_file) {
  const int status = of_file ? weights_count(path, net, r) : roms_of_lines(r, net);
  if (status)
    return status;
  roms_beside_banks(r, b, net);
  return roms_choose(r, path);
}

/* ---- output ---- */

void net_roms_text(const net_roms *r) {
  uint32_t i;
  printf("\n%s%-16s %12s %9s %12s%s\n", cmd_bold, "constants", "memory", "bytes", "read",
         cmd_plain);
  for (i = 0; i < r->count; i++) {
    const rom_constant *const c = r->constant + i;
    printf("%-16s %12s %9" PRIu64 " %12" PRIu64 "\n", c->name, r->name[c->memory], c->bytes,
           c->accesses);
  }
  printf("\n");
  for (i = 0; i < r->o.nbank; i++) {
    printf("%-16s %12" PRIu64, r->name[i], r->rom.bytes[i] + r->rom.image_bytes[i]);
    if (r->o.capacity[i] < (uint64_t)VRAM_MAX_BYTES)
      printf(" of %" PRIu64, r->o.capacity[i]);
    printf(" bytes");
    if (r->rom.image_bytes[i])
      printf(", of which %" PRIu64 " are copied at start", r->rom.image_bytes[i]);
    printf("%s%s, %" PRIu64 " bytes read by an inference\n", *r->from[i] ? ", copied from " : "",
           r->from[i], r->rom.accesses[i]);
  }
  printf("%-16s %s\n", "",
         r->rom.proven ? "no other choice reads more of them from the faster ones"
                       : "the search ended before it was done");
}

void net_roms_json(const net_roms *r) {
  uint32_t i;
  printf(",\"constants\":[");
  for (i = 0; i < r->count; i++) {
    const rom_constant *const c = r->constant + i;
    printf("%s{\"name\":\"%s\",\"rom\":\"%s\",\"bytes\":%" PRIu64 ",\"accesses\":%" PRIu64 "}",
           i ? "," : "", c->name, r->name[c->memory], c->bytes, c->accesses);
  }
  printf("],\"roms\":[");
  for (i = 0; i < r->o.nbank; i++) {
    printf("%s{\"name\":\"%s\",\"capacity_bytes\":%" PRIu64 ",\"bytes\":%" PRIu64
           ",\"image_bytes\":%" PRIu64 ",\"accesses\":%" PRIu64,
           i ? "," : "", r->name[i],
           r->o.capacity[i] < (uint64_t)VRAM_MAX_BYTES ? r->o.capacity[i] : 0, r->rom.bytes[i],
           r->rom.image_bytes[i], r->rom.accesses[i]);
    if (*r->from[i])
      printf(",\"copied_from\":\"%s\"", r->from[i]);
    printf("}");
  }
  printf("],\"roms_proven\":%s", r->rom.proven ? "true" : "false");
}

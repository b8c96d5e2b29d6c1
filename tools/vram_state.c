#include "vram_state.h"

typedef struct state_row {
  uint64_t bytes, count;
  uint32_t name;
} state_row;

typedef struct state_table {
  const char *title, *key; /* of the text, of JSON */
  size_t at;               /* of the name in trace_note */
  state_row *row;
  uint32_t n;
} state_table;

typedef struct state {
  const trace *t;
  uint64_t bytes, count;
  state_table table[3];
} state;

enum { KINDS, DEVICES, CALLERS, TABLES };

static const state_table no_table[TABLES] = {
    {"kind", "kinds", offsetof(trace_note, category), NULL, 0},
    {"device", "devices", offsetof(trace_note, phase), NULL, 0},
    {"who asked", "callers", offsetof(trace_note, node), NULL, 0}};

static int largest_first(const void *a, const void *b) {
  const state_row *const x = (const state_row *)a, *const y = (const state_row *)b;
  if (x->bytes != y->bytes)
    return x->bytes > y->bytes ? -1 : 1;
  if (x->count != y->count)
    return x->count > y->count ? -1 : 1;
  return x->name < y->name ? -1 : x->name > y->name;
}

/* Sums by the texts of one kind; not FITS: message printed. */
static int sum(state *s, state_table *to) {
  const trace *const t = s->t;
  uint32_t i;
  size_t k;
  to->row = (state_row *)calloc((size_t)t->ntext + 1, sizeof *to->row);
  if (!to->row)
    return cmd_no_memory();
  for (i = 0; i < t->ntext; i++)
    to->row[i].name = i;
  for (k = 0; k < t->n; k++)
    if (t->event[k].action == VRAM_ACTION_ALLOC && t->event[k].kind != FAILED) {
      uint32_t name;
      memcpy(&name, (const char *)(t->note + k) + to->at, sizeof name);
      to->row[name].bytes += t->event[k].bytes;
      to->row[name].count += t->note[k].blocks ? t->note[k].blocks : 1;
    }
  if (t->ntext)
    qsort(to->row, t->ntext, sizeof *to->row, largest_first);
  while (to->n < t->ntext && to->row[to->n].count)
    to->n++;
  return FITS;
}

static void print_table(const state *s, const state_table *table, uint32_t top) {
  uint32_t i;
  printf("\n%s%-48s %12s %10s%s\n", cmd_bold, table->title, "bytes", "count", cmd_plain);
  for (i = 0; i < table->n && (!top || i < top); i++) {
    const char *const name = s->t->text[table->row[i].name];
    printf("%-48.48s %12s %10" PRIu64 "\n", *name ? name : "(not said)",
           cmd_human(table->row[i].bytes), table->row[i].count);
  }
  if (i < table->n)
    printf("%s... and %lu more (--top 0)%s\n", cmd_dim, (unsigned long)(table->n - i), cmd_plain);
}

/* What a dump says of its regions, and of the request for which there was no place. */
static void print_free(const trace *t) {
  char number[32];
  size_t i;
  printf("\npool of %s: free %s", cmd_human(t->pool_bytes), cmd_human(t->free_bytes));
  printf(" in %s chunks, the largest of %s\n", cmd_grouped(t->free_chunks, number),
         cmd_human(t->largest_free));
  for (i = 0; i < t->n; i++)
    if (t->event[i].kind == FAILED && t->event[i].action == VRAM_ACTION_ALLOC) {
      printf("%sNO PLACE%s for %s", cmd_bold, cmd_plain, cmd_human(t->event[i].bytes));
      printf("%s%s: %s\n", t->note[i].node ? ", asked for by " : "", t->text[t->note[i].node],
             t->event[i].bytes <= t->largest_free ? "though a free chunk holds it"
             : t->event[i].bytes <= t->free_bytes ? "what is free lies in pieces"
                                                  : "more than is free");
    }
}

static void print_text(state *s, uint32_t top) {
  char number[32];
  int i;
  printf("%s%s%s  what is alive: %s in %s allocations\n", cmd_bold, s->t->path, cmd_plain,
         cmd_human(s->bytes), cmd_grouped(s->count, number));
  if (s->t->is_dump) {
    print_free(s->t);
    if (!s->t->has_nodes)
      s->table[CALLERS].title = "size";
  }
  for (i = 0; i < TABLES; i++)
    if (s->table[i].n > 1 || (s->table[i].n && s->table[i].row->name))
      print_table(s, s->table + i, top);
}

static void print_json(const state *s) {
  uint32_t i;
  int k;
  printf("{\"trace\":");
  cmd_json_text(stdout, s->t->path);
  printf(",\"state\":true,\"bytes\":%" PRIu64 ",\"count\":%" PRIu64, s->bytes, s->count);
  if (s->t->is_dump)
    printf(",\"pool_bytes\":%" PRIu64 ",\"free_bytes\":%" PRIu64 ",\"free_chunks\":%" PRIu64
           ",\"largest_free_block_bytes\":%" PRIu64,
           s->t->pool_bytes, s->t->free_bytes, s->t->free_chunks, s->t->largest_free);
  for (i = 0; s->t->is_dump && i < s->t->n; i++)
    if (s->t->event[i].kind == FAILED)
      printf(",\"no_place_for\":%" PRIu64, s->t->event[i].bytes);
  for (k = 0; k < TABLES; k++) {
    printf(",\"%s\":[", s->table[k].key);
    for (i = 0; i < s->table[k].n; i++) {
      const state_row *const row = s->table[k].row + i;
      printf("%s{\"name\":", i ? "," : "");
      cmd_json_text(stdout, s->t->text[row->name]);
      printf(",\"bytes\":%" PRIu64 ",\"count\":%" PRIu64 "}", row->bytes, row->count);
    }
    printf("]");
  }
  printf("}\n");
}

int state_report(const trace *t, int json, uint32_t top) {
  state s;
  int i, status = FITS;
  uint32_t k;
  memset(&s, 0, sizeof s);
  s.t = t;
  memcpy(s.table, no_table, sizeof no_table);
  for (i = 0; i < TABLES && !status; i++)
    status = sum(&s, s.table + i);
  for (k = 0; k < s.table[KINDS].n; k++) {
    s.bytes += s.table[KINDS].row[k].bytes;
    s.count += s.table[KINDS].row[k].count;
  }
  if (!status && json)
    print_json(&s);
  else if (!status)
    print_text(&s, top);
  for (i = 0; i < TABLES; i++)
    free(s.table[i].row);
  return status;
}

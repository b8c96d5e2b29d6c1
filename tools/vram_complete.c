/* vram complete WORD...: what may stand for the last word, for the shells (tools/install/). A line
   each: the word, a tab, what it is; <file>: any file. */
#include "vram_command.h"

/* An option in a help text: "  --amp bf16|fp16       what it is". */
typedef struct option_help {
  const char *name, *value, *text; /* value_len 0: it takes none; text: the first line of it */
  size_t name_len, value_len, text_len;
} option_help;

/* The next option from *at on, *at goes behind it; 0: there is no more. */
static int next_option(const char **at, option_help *o) {
  const char *s = *at;
  while (*s && strncmp(s, "  --", 4) && strncmp(s, ", --", 4))
    s += strcspn(s, "\n"), s += *s == '\n';
  if (!*s)
    return 0;
  o->name = s + 2;
  o->name_len = strcspn(o->name, ", \n");
  s = o->name + o->name_len;
  *at = *s == ',' ? s : s + strcspn(s, "\n");
  o->value = s + (*s == ' ');
  o->value_len = strcspn(o->value, " \n");
  while (*s != '\n' && strncmp(s, "  ", 2))
    s++;
  o->text = s + strspn(s, " \n"); /* of a long option on the next line */
  o->text_len = strcspn(o->text, "\n");
  return 1;
}

static void offer(const char *start, const char *word, size_t len, const char *text,
                  size_t text_len) {
  const size_t n = strlen(start);
  if (n <= len && !memcmp(word, start, n))
    printf("%.*s\t%.*s\n", (int)len, word, (int)text_len, text);
}

/* a|b|c; 0: it is no such list */
static int offer_words(const char *start, const char *words, size_t len) {
  size_t n;
  if (!len || !memchr(words, '|', len))
    return 0;
  for (; (n = strcspn(words, "| \n")) != 0; words += n + (words[n] == '|'))
    if (strcspn(words, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") >= n) /* NAME is not a word to put there */
      offer(start, words, n, "", 0);
  return 1;
}

/* The names that `vram list WHAT` shows, WHAT: the word at `what`. */
static void offer_list(const char *start, const char *what) {
  vram_optimizer_info o;
  const char *name, *text;
  uint32_t i;
  if (*what != 'o' && *what != 'm' && *what != 'g')
    return;
  for (i = 0; (name = cmd_name_at(what, i)) != NULL; i++) {
    if (*what == 'm')
      text = *cmd_built_in(name) + 2; /* a comment */
    else if (*what == 'g')
      text = cmd_human(vram_gpu_at(i)->bytes);
    else
      text = vram_optimizer_get_info(i, &o) ? o.state : "";
    offer(start, name, strlen(name), text, strcspn(text, "\n"));
  }
}

static void offer_commands(const char *start) {
  const char *s = help_main;
  for (; *s; s += strcspn(s, "\n"), s += *s == '\n')
    if (!strncmp(s, "  vram ", 7) && s[7] >= 'a' && s[7] <= 'z') {
      const char *text = strstr(s + 7, "  ");
      text += strspn(text, " ");
      offer(start, s + 7, strcspn(s + 7, " "), text, strcspn(text, "\n"));
    }
}

int complete_command(int argc, char **argv) {
  const cmd_entry *known = cmd_table;
  const char *start = argc ? argv[argc - 1] : "", *help, *at, *what, *end;
  option_help o;
  if (argc < 2)
    return offer_commands(start), FITS;
  if (!strcmp(argv[0], "list")) {
    what = help_list + sizeof "vram list";
    offer_words(start, what, strlen(what));
    return FITS;
  }
  while (known->name && strcmp(argv[0], known->name))
    known++;
  help = known->name ? known->help : "";
  for (at = help; next_option(&at, &o);)
    if (o.value_len && strlen(argv[argc - 2]) == o.name_len &&
        !memcmp(argv[argc - 2], o.name, o.name_len)) {
      end = strstr(o.text, "\n  --");
      what = strstr(o.text, "vram list ");
      if (!strncmp(o.value, "FILE", o.value_len))
        printf("<file>\n");
      else if (!offer_words(start, o.value, o.value_len) && what && (!end || what < end))
        offer_list(start, what + 10);
      return FITS;
    }
  for (at = help; *start == '-' && next_option(&at, &o);)
    offer(start, o.name, o.name_len, o.text, o.text_len);
  if ((strstr(help, " MODEL") || strstr(help, " TRACE")) && *start != '-') {
    if (strstr(help, " MODEL"))
      offer_list(start, "models");
    printf("<file>\n");
  }
  return FITS;
}

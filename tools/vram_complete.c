/* vram complete WORD...: what may stand for the last word, for the shells (tools/install/). A line
   each: the word, a tab, what it is; <file>: any file. */
#include "vram_command.h"

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
  char list[16];
  uint32_t i;
  snprintf(list, sizeof list, "%.*s", (int)strspn(what, "abcdefghijklmnopqrstuvwxyz"), what);
  for (i = 0; (name = cmd_name_at(list, i)) != NULL; i++) {
    if (*what == 'm')
      text = *cmd_built_in(name) + 2; /* a comment */
    else if (*what == 'g')
      text = cmd_human(vram_gpu_at(i)->bytes);
    else if (*what == 'r')
      text = "";
    else
      text = vram_optimizer_get_info(i, &o) ? o.state : "";
    offer(start, name, strlen(name), text, strcspn(text, "\n"));
  }
}

static void offer_commands(const char *start) {
  const char *s = *help_main;
  for (; *s; s += strcspn(s, "\n"), s += *s == '\n')
    if (!strncmp(s, "  vram ", 7) && s[7] >= 'a' && s[7] <= 'z') {
      const char *text = strstr(s + 7, "  ");
      text += strspn(text, " ");
      offer(start, s + 7, strcspn(s + 7, " "), text, strcspn(text, "\n"));
    }
}

/* ddp=, fsdp2=, ...: with these a line of the help of --parallel begins. */
static void offer_parallel(const char *start, int automatic) {
  const char *const *text, *s, *last = "";
  for (text = help_parallel; *text; text++)
    for (s = *text; *s; s += strcspn(s, "\n"), s += *s == '\n')
      if (!strncmp(s, "  ", 2))
        for (s += 2; *s >= 'a'; s += strcspn(s, " \n"), s += *s == ' ') {
          const size_t n = strcspn(s, "=") + 1;
          if (strncmp(s, last, n) != 0) /* fsdp1=N, fsdp1=COPIESxSHARDS */
            offer(start, s, n, "", 0);
          last = s;
        }
  if (automatic)
    offer(start, "auto", 4, "every way, and which fits", 25);
}

int complete_command(int argc, char **argv) {
  const cmd_entry *known = cmd_table;
  const char *start = argc ? argv[argc - 1] : "", *const * help, *const * name, *usage, *at, *what,
             *end;
  cmd_option o;
  if (argc < 2)
    return offer_commands(start), FITS;
  if (!strcmp(argv[0], "list")) {
    what = *help_list + sizeof "vram list";
    offer_words(start, what, strlen(what));
    return FITS;
  }
  if (!strcmp(argv[0], "help")) {
    if (argc == 2) {
      offer_commands(start);
      offer(start, "parallel", 8, "many devices: the words of --parallel", 37);
    }
    return FITS;
  }
  while (known->name && strcmp(argv[0], known->name))
    known++;
  if (!known->name || !*known->help)
    return FITS;
  usage = *known->help;
  if (cmd_find_option(known->help, argv[argc - 2], &o) && o.value_len) {
    end = strstr(o.text, "\n  --");
    what = strstr(o.text, "vram list ");
    if (!strncmp(o.value, "FILE", o.value_len))
      printf("<file>\n");
    else if (!strncmp(o.name, "--parallel", o.name_len))
      offer_parallel(start, !strcmp(argv[0], "fit"));
    else if (!strncmp(o.value, "SIGNAL", o.value_len))
      for (name = run_signal_name; *name; name++)
        offer(start, *name, strlen(*name), "", 0);
    else if (!offer_words(start, o.value, o.value_len) && what && (!end || what < end))
      offer_list(start, what + 10);
    return FITS;
  }
  for (help = known->help; *start == '-' && *help; help++)
    for (at = *help; cmd_next_option(&at, &o);)
      offer(start, o.name, o.name_len, o.text, o.text_len);
  if ((strstr(usage, " MODEL") || strstr(usage, " TRACE")) && *start != '-') {
    if (strstr(usage, " MODEL"))
      offer_list(start, "models");
    printf("<file>\n");
  }
  return FITS;
}

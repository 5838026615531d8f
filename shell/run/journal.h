/* journal.h - the log of a program (--log FILE, RILLE_LOG): one JSON object per line.
 *
 * Each object has "time" (UTC), "job", "host", "pid", "rank" (workers only) and "event"; further fields depend on the
 * event. Processes of one host may write to the same file, because each line is written by one call of write(2) at the
 * end of the file. Without a log the functions do nothing. Any thread. */
#ifndef RILLE_SHELL_JOURNAL_H
#define RILLE_SHELL_JOURNAL_H

#include <stdbool.h>

struct json_t;

/* Opens the log and keeps it open until the process ends. option: origin of the path, for messages. Returns 0; -1 after
 * printing the error. */
int journal_open(const char *option, const char *path);
/* Returns true if the program has a log. */
bool journal_is_open(void);
/* sets the field "job" of all later lines; name: path of a script, or another text */
void journal_job(const char *name);
void journal_rank(int rank);
/* Writes an event with a text; NULL: no text. */
void journal_event(const char *event, const char *text);
/* Writes an event with further fields, an object that this function releases. */
void journal_write(const char *event, struct json_t *fields);
/* Writes a report, an object that this function keeps or releases. A report is written at once if none was written
 * in the last second. Otherwise it replaces the report that waits, and journal_flush() writes it. Main thread. */
void journal_report(struct json_t *fields);
void journal_flush(void);

#endif

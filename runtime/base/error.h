/* error.h - errors: functions return a code, and each thread keeps a text.
 *
 * A function that can fail for reasons outside the program returns int: 0, or a code of errors.def. Before it
 * returns the code, it calls fail() with a text that states the expected and the found value. Functions that return
 * a pointer return NULL after fail(). Callers pass the code on (TRY), perhaps with err_note(); only shell/ turns a
 * code into a Lua error. The record belongs to the calling thread. */
#ifndef RILLE_RUNTIME_ERROR_H
#define RILLE_RUNTIME_ERROR_H

#include "runtime/base/base.h"

enum err_code {
    E_OK = 0,
#define ERROR(name, text) E_##name,
#include "runtime/base/errors.def"
#undef ERROR
    NERR
};

/* Sets this thread's error and returns `code` (never 0). Truncates the text to 2000 bytes. */
int fail(enum err_code code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Puts "note: " before the text of the current error. */
void err_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Puts "who: " before the error text, unless the text already begins with it. */
void err_of(const char *who);

/* Sets the line of the user's program that later errors of this thread report. `file` must stay valid. file NULL: no
 * line. */
void err_at(const char *file, int line);

/* Returns the user's line of the last error, as "file:line"; "": unknown. Valid until the next err_line(). */
const char *err_line(void);

/* Records the number of the module whose operator failed, for this thread's last error. The next fail() clears the
 * number. */
void err_in_module(int32_t module);
/* Returns the number of the module recorded for this thread's last error; 0: none. */
int32_t err_module(void);

/* Returns the text of this thread's last error; "": none. Valid until the next fail(). */
const char *err_text(void);
enum err_code err_last(void);
void err_clear(void);

/* Returns a code in words, E_SHAPE -> "shape error", for messages that have only a code. */
const char *err_name(enum err_code code);

#endif

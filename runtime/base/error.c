/* error.c - the error record of each thread: a code and a text.
 *
 * The text is a thread-local array, so fail() allocates nothing and works even if memory is used up. Arguments of
 * fail() may point into the current error text, because the new text is formatted in a second buffer. */
#include "runtime/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 2000, LINE_BYTES = 512 };

static _Thread_local struct {
    enum err_code code;
    char text[TEXT_BYTES];
    const char *file;
    int line;
    int32_t module;
} last;

static _Thread_local struct {
    const char *file;
    int line;
} now;

static const char *const names[NERR] = {
    [E_OK] = "no error",
#define ERROR(name, text) [E_##name] = text,
#include "runtime/base/errors.def"
#undef ERROR
};

int
fail(enum err_code code, const char *fmt, ...)
{
    char text[TEXT_BYTES];
    va_list ap;

    assert(code > E_OK && code < NERR);
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    memcpy(last.text, text, sizeof text);
    last.code = code;
    last.file = now.file;
    last.line = now.line;
    last.module = 0;
    return (int)code;
}

void
err_in_module(int32_t module)
{
    last.module = module;
}

int32_t
err_module(void)
{
    return last.code ? last.module : 0;
}

void
err_at(const char *file, int line)
{
    now.file = file;
    now.line = line;
}

const char *
err_line(void)
{
    static _Thread_local char text[LINE_BYTES];
    text[0] = '\0';
    if (last.code && last.file) snprintf(text, sizeof text, "%s:%d", last.file, last.line);
    return text;
}

void
err_note(const char *fmt, ...)
{
    char note[TEXT_BYTES / 2];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(note, sizeof note - 2, fmt, ap);
    va_end(ap);
    strcat(note, ": ");
    size_t len = strlen(note), rest = MIN(strlen(last.text), TEXT_BYTES - 1 - len);
    memmove(last.text + len, last.text, rest);
    memcpy(last.text, note, len);
    last.text[len + rest] = '\0';
}

void
err_of(const char *who)
{
    size_t n = strlen(who);
    if (strncmp(last.text, who, n) || last.text[n] != ':') err_note("%s", who);
}

const char *
err_text(void)
{
    return last.text;
}

enum err_code
err_last(void)
{
    return last.code;
}

void
err_clear(void)
{
    last.code = E_OK;
    last.file = NULL;
    last.text[0] = '\0';
}

const char *
err_name(enum err_code code)
{
    return (unsigned)code < NERR ? names[code] : "unknown error";
}

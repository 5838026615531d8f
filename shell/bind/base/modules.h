/* modules.h - the table of modules written in Lua, generated at build time from lua/ (modules.cmake). Constant: any
 * thread may read the table. */
#ifndef RILLE_SHELL_MODULES_H
#define RILLE_SHELL_MODULES_H

#include <stddef.h>

struct module_text {
    const char *name; /* module name without "rille.": "nn.linear"; NULL ends the table */
    const char *text; /* source text, not zero-terminated */
    size_t size;
};
extern const struct module_text module_texts[];

#endif

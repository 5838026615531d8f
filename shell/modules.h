/* modules.h - the table of modules written in Lua, which the build makes of lua/ (modules.cmake). Constant: any thread
 * may read it. */
#ifndef RILLE_SHELL_MODULES_H
#define RILLE_SHELL_MODULES_H

#include <stddef.h>

struct module_text {
    const char *name; /* "nn.linear"; NULL behind the last */
    const char *text; /* no zero byte ends it */
    size_t size;
};
extern const struct module_text module_texts[];

#endif

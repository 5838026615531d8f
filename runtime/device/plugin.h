/* plugin.h - parts of Rille that are loaded on demand, because their dependencies are not installed everywhere. Any
 * thread. */
#ifndef RILLE_RUNTIME_PLUGIN_H
#define RILLE_RUNTIME_PLUGIN_H

#include "runtime/base/base.h"

/* Opens "librille-NAME.so": in the folder of the program or library with this code, in the install folder relative
 * to that, or by the loader's search path. everywhere: the symbols of its dependencies become global (RTLD_GLOBAL).
 * NULL: dlerror() says why. */
void *plugin_open(const char *file, bool everywhere);

#endif

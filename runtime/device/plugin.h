/* plugin.h - loads parts of Rille on demand, because the libraries that these parts need are not installed
 * everywhere. Any thread. */
#ifndef RILLE_RUNTIME_PLUGIN_H
#define RILLE_RUNTIME_PLUGIN_H

#include "runtime/base/base.h"

/* Opens "librille-NAME.so". Searches the folder of the program or library that contains this code, then the
 * install folder relative to it, then the loader's search path. everywhere: the symbols of the plug-in's
 * dependencies become global (RTLD_GLOBAL). NULL: the plug-in cannot be opened; dlerror() returns the reason. */
void *plugin_open(const char *file, bool everywhere);

#endif

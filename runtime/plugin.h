/* plugin.h - files of Rille that are opened when they are wanted, since what they need is not everywhere. Any thread.
 */
#ifndef RILLE_RUNTIME_PLUGIN_H
#define RILLE_RUNTIME_PLUGIN_H

#include "runtime/base.h"

/* Opens "librille-NAME.so" that lies beside the program or library that this code is in, or where it is installed as
 * seen from there; else the one that the loader finds. everywhere: what it needs is seen by what that opens in turn.
 * NULL: dlerror() says why. */
void *plugin_open(const char *file, bool everywhere);

#endif

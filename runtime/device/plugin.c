/* plugin.c - finds and opens plug-ins. */
#include "runtime/device/plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Sets the path of the file that contains this code: the program or a library. "": unknown. */
static void
library_path(char *path, size_t capacity)
{
    static const char here;
    Dl_info self;
    struct link_map *map = NULL;
    ssize_t n = 0;
    if (dladdr1(&here, &self, (void **)&map, RTLD_DL_LINKMAP) && map && *map->l_name)
        n = snprintf(path, capacity, "%s", map->l_name);
    else
        n = readlink("/proc/self/exe", path, capacity - 1);
    path[n < 0 || n >= (ssize_t)capacity ? 0 : n] = '\0';
}

void *
plugin_open(const char *file, bool everywhere)
{
    static const char *const places[] = {"", "../" RILLE_LIBDIR "/", "../../"};
    char own[PATH_MAX], path[PATH_MAX + 64];
    int how = RTLD_NOW | (everywhere ? RTLD_GLOBAL : RTLD_LOCAL);
    library_path(own, sizeof own);
    char *slash = strrchr(own, '/');
    for (size_t i = 0; slash && i < countof(places); i++) {
        slash[1] = '\0';
        snprintf(path, sizeof path, "%s%s%s", own, places[i], file);
        if (!access(path, F_OK)) return dlopen(path, how);
    }
    return dlopen(file, how);
}

/* plugin.c - finds and opens plug-ins. */
#include "runtime/device/plugin.h"
#include "runtime/base/system.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef __APPLE__
/* Sets the path of the file that contains this code: the program or a library. "": unknown. */
static void
library_path(char path[PATH_MAX])
{
    static const char here;
    Dl_info found;
    path[0] = '\0';
    if (dladdr(&here, &found)) snprintf(path, PATH_MAX, "%s", found.dli_fname);
}
#else
#include <link.h>

/* Callback for each loaded object: returns 1 if the object contains this code, and sets path to its path; the
 * program itself has the path "". */
static int
contains_this_code(struct dl_phdr_info *info, size_t size, void *path)
{
    static const char here;
    uintptr_t at = (uintptr_t)&here;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (info->dlpi_phdr[i].p_type != PT_LOAD || at < begin || at >= begin + info->dlpi_phdr[i].p_memsz) continue;
        snprintf(path, PATH_MAX, "%s", info->dlpi_name);
        return 1;
    }
    return 0;
}

/* Sets the path of the file that contains this code: the program or a library. "": unknown. */
static void
library_path(char path[PATH_MAX])
{
    path[0] = '\0';
    dl_iterate_phdr(contains_this_code, path);
    if (path[0]) return;
    system_program(path, PATH_MAX);
}
#endif

void *
plugin_open(const char *file, bool everywhere)
{
    static const char *const places[] = {"", "../" RILLE_LIBDIR "/", "../../"};
    char own[PATH_MAX], path[PATH_MAX + 64];
    int how = RTLD_NOW | (everywhere ? RTLD_GLOBAL : RTLD_LOCAL);
    library_path(own);
    char *slash = strrchr(own, '/');
    for (size_t i = 0; slash && i < countof(places); i++) {
        slash[1] = '\0';
        snprintf(path, sizeof path, "%s%s%s", own, places[i], file);
        if (!access(path, F_OK)) return dlopen(path, how);
    }
    return dlopen(file, how);
}

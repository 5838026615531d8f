/* loaded_library.c - opens shared libraries of operators and registers their records. */
#include "kernels/loaded/loaded_library.h"
#include "kernels/loaded/loaded_record.h"
#include "kernels/loaded/loaded_check.h"

#include "kernels/op/base/table.h"
#include "runtime/data/arena.h"
#include "runtime/base/error.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __linux__
#include <link.h>
#endif

typedef const struct rille_operator *const *list_function(uint32_t abi);

/* Returns true if a file ends before the end of one of its ELF segments. dlopen() maps such a file without an error,
 * and the first access beyond the file's end ends the process (SIGBUS). */
static bool
is_incomplete(const char *file)
{
    bool cut = false;
#ifdef __linux__
    ElfW(Ehdr) head;
    ElfW(Phdr) segment;
    FILE *f = fopen(file, "rb");
    bool elf =
        f && fread(&head, sizeof head, 1, f) == 1 && !memcmp(head.e_ident, ELFMAG, SELFMAG) && !fseek(f, 0, SEEK_END);
    uint64_t size = elf ? (uint64_t)ftell(f) : 0;
    for (int i = 0; elf && !cut && i < head.e_phnum; i++) {
        bool read = !fseek(f, (long)head.e_phoff + i * head.e_phentsize, SEEK_SET) &&
                    fread(&segment, sizeof segment, 1, f) == 1;
        cut = !read || segment.p_offset > size || segment.p_filesz > size - segment.p_offset;
    }
    if (f) fclose(f);
#else
    (void)file;
#endif
    return cut;
}

/* Opens a library and sets its list of records. A path without '/' is a file of the current folder. */
static int
open_library(const char *path, void **library, const struct rille_operator *const **list)
{
    char file[PATH_MAX];
    snprintf(file, sizeof file, "%s%s", strchr(path, '/') ? "" : "./", path);
    if (is_incomplete(file)) return fail(E_IO, "expected a shared library: the file is incomplete");
    *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!*library && access(file, R_OK)) return fail(E_IO, "%s", strerror(errno));
    if (!*library) return fail(E_IO, "expected a shared library: %s", dlerror());
    list_function *function = NULL;
    *(void **)&function = dlsym(*library, "rille_operators");
    if (!function)
        return fail(E_ARG, "the library has no function rille_operators; define it with RILLE_OPERATORS of "
                           "rille_operator.h");
    *list = function(RILLE_OPERATOR_ABI);
    if (!*list || !**list)
        return fail(E_ARG, "the library has no operators of version %d of the operator interface", RILLE_OPERATOR_ABI);
    return 0;
}

static bool
is_loaded(const struct rille_operator *r)
{
    for (int i = op_count; op_at(i); i++)
        if (loaded_of(op_at(i))->from == r) return true;
    return false;
}

static int
make_records(int n, const struct rille_operator *const *list, const char *path, struct loaded *l)
{
    for (int i = 0; i < n; i++) {
        TRY(loaded_record(list[i], path, &l[i]));
        bool exists = op_find(l[i].op.name);
        for (int k = 0; k < i; k++) exists = exists || !strcmp(l[k].op.name, l[i].op.name);
        if (exists) return fail(E_ARG, "the operator '%s' exists already; choose another name", l[i].op.name);
    }
    for (int i = 0; i < n; i++) TRY(loaded_link(&l[i], n, l));
    bool full = op_at(op_count + OP_LOADED - n);
    if (full) return fail(E_STATE, "a process can load at most %d operators", OP_LOADED);
    for (int i = 0; i < n; i++) TRY(loaded_check(&l[i]));
    for (int i = 0; i < n; i++) op_register(&l[i].op);
    return 0;
}

/* Registers the operators of an opened library. Sets *stays to true if the process needs the library from now on. */
static int
load_list(const struct rille_operator *const *list, const char *path, bool *stays)
{
    int n = 0;
    if (is_loaded(list[0])) return 0;
    while (list[n]) n++;
    struct loaded *records = must_alloc(sizeof *records * (size_t)n);
    char *source = must_copy(path, strlen(path) + 1);
    int status = make_records(n, list, source, records);
    *stays = !status;
    if (*stays) return 0;
    free(source);
    free(records);
    return status;
}

static int
load_library(const char *path)
{
    void *library = NULL;
    bool stays = false;
    const struct rille_operator *const *list;
    int status = open_library(path, &library, &list);
    if (!status) status = load_list(list, path, &stays);
    if (library && !stays) dlclose(library);
    if (status) err_note("%s", path);
    return status;
}

int
loaded_open(const char *path)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    int status = load_library(path);
    pthread_mutex_unlock(&lock);
    return status;
}

int
loaded_from_environment(void)
{
    const char *list = getenv("RILLE_OPERATORS");
    while (list && *list) {
        char path[PATH_MAX];
        size_t n = strcspn(list, ":");
        snprintf(path, sizeof path, "%.*s", (int)n, list);
        int status = n ? loaded_open(path) : 0;
        if (status) err_note("RILLE_OPERATORS");
        TRY(status);
        list += n + (list[n] == ':');
    }
    return 0;
}

/* jupyter_install.c - rille --jupyter-install: writes the file from which Jupyter learns how to start this program as a
 * kernel. */
#include "shell/repl/run.h"
#include "shell/jupyter/jupyter.h"
#include "runtime/base/system.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Finds Jupyter's data folder as Jupyter does: $JUPYTER_DATA_DIR, $XDG_DATA_HOME/jupyter or ~/.local/share/jupyter. */
static bool
kernel_path(char path[PATH_MAX])
{
    static const char *const places[][2] = {
        {"JUPYTER_DATA_DIR", ""}, {"XDG_DATA_HOME", "/jupyter"}, {"HOME", "/.local/share/jupyter"}};
    for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
        const char *base = getenv(places[k][0]);
        if (!base || !*base) continue;
        return snprintf(path, PATH_MAX, "%s%s/kernels/rille/kernel.json", base, places[k][1]) < PATH_MAX;
    }
    return false;
}

static json_t *
kernel_spec(void)
{
    char program[PATH_MAX];
    if (!system_program(program, sizeof program)) return NULL;
    return json_pack("{s[sss]ssssss}", "argv", program, "--jupyter", "{connection_file}", "display_name", "Rille",
                     "language", "lua", "interrupt_mode", "message");
}

static int
say_failed(const char *path, const char *why)
{
    fprintf(stderr, "rille: jupyter: %s cannot be written: %s\n", path, why);
    return 1;
}

int
jupyter_install(void)
{
    char path[PATH_MAX], made[PATH_MAX + 4];
    if (!kernel_path(path)) return say_failed("kernel.json", "HOME is not set");
    make_folders(path);
    json_t *spec = kernel_spec();
    snprintf(made, sizeof made, "%s.new", path);
    errno = 0;
    bool bad = !spec || json_dump_file(spec, made, JSON_INDENT(2)) || rename(made, path);
    json_decref(spec);
    if (bad) return say_failed(path, errno ? strerror(errno) : "this program's path is unknown");
    printf("Jupyter finds the kernel rille: %s\n", path);
    return 0;
}

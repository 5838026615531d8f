/* identity.c - reads oneDNN's version and instruction set, and limits the instruction set. */
#include "kernels/exec/identity.h"

#include "runtime/base/base.h"
#include "runtime/base/error.h"

#include <dnnl.h>
#include <signal.h>
#include <strings.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __GLIBC__
#include <gnu/libc-version.h>
#define LIBC_VERSION gnu_get_libc_version()
#else
#define LIBC_VERSION "none" /* musl has no version at run time */
#endif

extern const char kernels_source_digest[]; /* made by source_digest.cmake */

/* instruction sets (ISA limits) that oneDNN 2.6 to 3.7 all know, largest first */
static const struct {
    dnnl_cpu_isa_t isa;
    const char *name;
} sets[] = {{dnnl_cpu_isa_avx512_core_amx, "avx512_core_amx"},
            {dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16"},
            {dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni"},
            {dnnl_cpu_isa_avx512_core, "avx512_core"},
            {dnnl_cpu_isa_avx2_vnni, "avx2_vnni"},
            {dnnl_cpu_isa_avx2, "avx2"},
            {dnnl_cpu_isa_avx, "avx"},
            {dnnl_cpu_isa_sse41, "sse41"}};

static unsigned limited; /* instruction set to which the last kernels_limit_isa() limited oneDNN; 0: not limited */

void
kernels_print(struct str *out)
{
    struct utsname u;
    const dnnl_version_t *v = dnnl_version();
    str_addf(out, "kernels %s, oneDNN %d.%d.%d, glibc %s, %s", kernels_source_digest, v->major, v->minor, v->patch,
             LIBC_VERSION, uname(&u) ? "unknown processor" : u.machine);
}

/* Asks oneDNN for its instruction set in a child process, because oneDNN accepts no limit after it has reported its
 * instruction set. The child kills itself, so that the program's exit handlers do not run in the child. */
unsigned
kernels_isa(void)
{
    int end[2];
    unsigned isa = 0;
    if (limited || pipe(end)) return limited;
    pid_t child = fork();
    if (child == 0) {
        isa = (unsigned)dnnl_get_effective_cpu_isa();
        ssize_t sent = write(end[1], &isa, sizeof isa);
        UNUSED(sent);
        for (;;) kill(getpid(), SIGKILL);
    }
    close(end[1]);
    if (child < 0 || read(end[0], &isa, sizeof isa) != sizeof isa) isa = 0;
    close(end[0]);
    if (child > 0) waitpid(child, NULL, 0);
    return isa;
}

static size_t
largest_set(unsigned isa)
{
    size_t i = 0;
    while (i < countof(sets) && (isa & (unsigned)sets[i].isa) != (unsigned)sets[i].isa) i++;
    return i;
}

const char *
kernels_isa_name(unsigned isa)
{
    size_t i = largest_set(isa);
    return i < countof(sets) ? sets[i].name : "";
}

int
kernels_limit_isa(unsigned isa)
{
    size_t i = largest_set(isa);
    if (isa == kernels_isa()) return 0;
    if (i == countof(sets))
        return fail(E_STATE,
                    "the hosts have no instruction set in common: masks %#x and, on this host, %#x; use hosts of one "
                    "architecture",
                    isa, kernels_isa());
    if (dnnl_set_max_cpu_isa(sets[i].isa))
        return fail(E_STATE,
                    "matrix products must be computed with the instruction set %s, as on the other hosts, but this "
                    "process has already computed some with %s; start the job with --isa %s",
                    kernels_isa_name(isa), kernels_isa_name(kernels_isa()), kernels_isa_name(isa));
    limited = isa;
    return 0;
}

int
kernels_limit_isa_by_name(const char *name)
{
    struct str names = {0};
    for (size_t i = 0; i < countof(sets); i++) {
        if (!strcasecmp(name, sets[i].name)) {
            str_free(&names);
            return kernels_limit_isa(kernels_isa() & (unsigned)sets[i].isa);
        }
        str_addf(&names, "%s%s", i ? ", " : "", sets[i].name);
    }
    int code = fail(E_VALUE, "the instruction set of products must be one of %s, found '%s'", names.text, name);
    str_free(&names);
    return code;
}

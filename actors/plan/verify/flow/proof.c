/* proof.c - errors of a proof, and data of nodes that several proofs need: computed once, when first needed. */
#include "actors/plan/verify/flow/proof.h"

#include "actors/plan/model/deadlock.h"
#include "runtime/base/error.h"

#include <stdarg.h>
#include <stdio.h>

int
proof_fail(const struct proof *v, int32_t task, const char *fmt, ...)
{
    char text[1024];
    struct str name = {0};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    task_print(v->plan, task, &name);
    int status = fail(E_PLAN, "plan: task %d, %s: %s", (int)task, str_text(&name), text);
    str_free(&name);
    return status;
}

int
proof_differs(const struct proof *v, int32_t task, const char *field, int64_t got, int64_t want)
{
    return proof_fail(v, task, "%s must be %lld, found %lld", field, (long long)want, (long long)got);
}

bool
proof_fits(int64_t n, size_t size, const struct arena *a)
{
    return n >= 0 && (uint64_t)n <= a->used_bytes / size;
}

uint32_t
proof_wide(struct proof *v, int32_t i)
{
    if (!v->wide) v->wide = program_wide(v->plan->program, &v->tmp);
    return v->wide[i];
}

int32_t
proof_sum(struct proof *v, int32_t i)
{
    if (!v->sums) v->sums = program_sums(v->plan->program, &v->tmp);
    return v->sums[i];
}

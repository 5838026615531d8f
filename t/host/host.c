/* host.c - a program that embeds Rille. Its helper functions have the same names as functions inside Rille. The
 * linker must not confuse the two. */
#include <rille.h>

#include <stdio.h>

int fail(const char *why);
void *pool_new(int n);
void *arena_alloc(int n);
static int calls;

int
fail(const char *why)
{
    return printf("host: %s\n", why), 1;
}

void *
pool_new(int n)
{
    calls += n;
    return NULL;
}

void *
arena_alloc(int n)
{
    calls += n;
    return NULL;
}

int
main(void)
{
    struct rille_session *s;
    struct rille_tensor *ones, *sum;
    int64_t shape[] = {3, 4}, whole;
    double value;
    bool is_int;
    if (rille_open(&(struct rille_options){.devices = "cpu:2"}, &s)) return fail(rille_error());
    if (rille_create(s, rille_op_find("ones"), 0, NULL, 2, shape, NULL, NULL, &ones)) return fail(rille_error());
    struct rille_arg arg = {.kind = RILLE_ARG_TENSOR, .tensor = ones};
    if (rille_call(s, rille_op_find("sum"), 1, &arg, 0, NULL, &sum)) return fail(rille_error());
    if (rille_tensor_item(sum, &value, &whole, &is_int)) return fail(rille_error());
    pool_new(1), arena_alloc(2);
    rille_tensor_free(&ones);
    rille_tensor_free(&sum);
    rille_close(&s);
    printf("%g %d\n", value, calls);
    return 0;
}

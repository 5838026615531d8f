/* Tests of sbp/proof/proof.c with hand-written certificates. The checker must reject false claims that exploit the
 * limits of numbers. It must also reject a certificate if the check would need unbounded memory. */
#include "sbp/proof/proof.h"

#include "runtime/base/error.h"
#include "sbp/solve/certify.h"
#include "sbp/proof/proof_read.h"
#include "t/lib/tap.h"

#include <sys/resource.h>
#include <time.h>

#define NEVER (long long)PROOF_NEVER

static bool
accepted(struct str *text)
{
    struct str said = {0};
    certify_seal(text);
    bool good = proof_check(text->text, text->len, &said) == 0;
    if (!good) diag("%s", err_text());
    err_clear();
    str_free(&said);
    str_free(text);
    return good;
}

static bool
refused(struct str *text, const char *why)
{
    struct str said = {0};
    certify_seal(text);
    bool fine = proof_check(text->text, text->len, &said) != 0 && strstr(err_text(), why);
    if (!fine) diag("%s%s", str_text(&said), err_text());
    err_clear();
    str_free(&said);
    str_free(text);
    return fine;
}

/* Writes a certificate for this network: node 0 has three candidates with costs 0, 0 and 1000; with each of three
 * readers, candidate 0 costs `much`. The optimum is 0, with candidate 1. */
static struct str
three(long long much, long long bound, const char *steps)
{
    struct str s = {0};
    str_add(&s, "rille certificate 2\nnet 4 3 1 0\nlist 0 3 0 0 1000\nnode 0 0 -\nlist 1 2 0 0\n");
    str_add(&s, "node 1 0 -\nnode 1 0 -\nnode 1 0 -\nlist 2 3 0 1 2\n");
    str_addf(&s, "list 3 3 %lld 0 0\nlist 4 2 0 0\n", much);
    for (int k = 1; k < 4; k++) str_addf(&s, "tensor 0 3 1 2 3 - 0 0 1 %d 4\n", k);
    str_addf(&s, "scale 1\nchoice 2 0 0 0\ncost 1000\nbound %lld\nproof\n%send\n", bound, steps);
    return s;
}

/* Writes a certificate of five nodes. Each node costs 0 or 1000. All nodes use `each` bytes, at the same time. The
 * stated choice costs 1000. */
static struct str
bytes(long long each, long long limit, long long price, long long bound)
{
    struct str s = {0};
    str_addf(&s, "rille certificate 2\nnet 5 0 1 %lld\nlist 0 2 0 1000\nlist 1 2 %lld %lld\n", limit, each, each);
    for (int k = 0; k < 5; k++) str_add(&s, "node 0 0 1\n");
    str_addf(&s, "price 0 %lld\nscale 1000\nchoice 1 0 0 0 0\ncost 1000\nbound %lld\nproof\nend\n", price, bound);
    return s;
}

static void
test_forgeries(void)
{
    static const char CUTS[] = "cut 0 1\ncut 0 2\ncut 0 3\n";
    struct str s = three(10, 0, CUTS);
    ok(accepted(&s), "an edge whose prices are a sum can be cut");
    s = three(NEVER - 1, 1000, CUTS);
    ok(refused(&s, "below the least number"), "a cost below the smallest number is refused");
    s = bytes(1 << 20, 5 << 20, 1 << 24, 0);
    ok(accepted(&s), "a price of bytes is accepted");
    s = bytes(1 << 30, (long long)1 << 40, (long long)1 << 60, 1000);
    ok(refused(&s, "larger than can be checked"), "a limit whose value exceeds the largest number is refused");
    s = bytes(1 << 20, 0, (long long)1 << 40, 1000);
    ok(refused(&s, "no memory limit"), "a price of bytes without a limit is refused");
}

/* Tests proof steps for a bound that is true: the checker must still reject an invalid step. */
static void
steps(void)
{
    struct str s = three(10, 0, "cut 0 1\nout 0\n");
    ok(accepted(&s), "a variable with two neighbours can be eliminated");
    s = three(10, 0, "out 0\n");
    ok(refused(&s, "more than two neighbours"),
       "eliminating a variable with three neighbours is refused, although the bound is true");
    s = three(10, 0, "out 1\nout 2\nout 3\nout 0\n");
    ok(accepted(&s), "the variable can be eliminated after its neighbours");
    str_add(&s, "rille certificate 2\nnet 2 1 1 0\nlist 0 1 0\nnode 0 0 -\nnode 0 0 -\nlist 1 1 5\n");
    str_add(&s, "tensor 0 1 1 0 1 - 0 0 2 1 0 1 0\nscale 1\nchoice 0 0\ncost 5\nbound 5\nproof\nout 2\nend\n");
    ok(accepted(&s), "a node that reads a form twice is one neighbour, and pays once");
    s = three(10, 0, "round\nprune -\n");
    ok(accepted(&s), "a bound closes the proof");
    s = three(10, 0, "round\nprune -\nsupport\n");
    ok(accepted(&s), "steps after the closing bound are skipped");
    s = three(10, 0, "split 0\ncase 0\nround\nprune -\nend\ncase 1\nround\nprune -\nend\ncase 2\nend\n");
    ok(accepted(&s), "a split with all cases closes the proof");
    s = three(10, 0, "split 0\ncase 0\nround\nprune -\nend\ncase 1\nround\nprune -\nend\ncase 2\nend\nout 1\n");
    ok(accepted(&s), "steps after the closing split are skipped");
}

/* Writes a certificate of one tensor with n readers. Each reader uses the tensor in another layout; converting
 * costs nothing. */
static void
many_forms(void)
{
    enum { MANY = 50000, SECONDS = 2 };
    struct str s = {0};
    str_addf(&s, "rille certificate 2\nnet %d 1 1 0\nlist 0 1 0\n", MANY + 1);
    for (int k = 0; k <= MANY; k++) str_add(&s, "node 0 0 -\n");
    str_addf(&s, "list 1 %d", MANY);
    for (int k = 0; k < MANY; k++) str_add(&s, " 1");
    str_add(&s, "\n");
    for (int k = 0; k < MANY; k++) str_addf(&s, "list %d 1 %d\n", k + 2, k);
    str_addf(&s, "tensor 0 1 %d 0 1 - 0 0 %d", MANY, MANY);
    for (int k = 0; k < MANY; k++) str_addf(&s, " %d %d", k + 1, k + 2);
    str_add(&s, "\nscale 1\nchoice");
    for (int k = 0; k <= MANY; k++) str_add(&s, " 0");
    str_addf(&s, "\ncost %d\nbound %d\nproof\nsupport\nend\n", MANY, 0);
    clock_t begin = clock();
    ok(accepted(&s), "a tensor with %d readers, each with its own form, is accepted", MANY);
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    ok(seconds < SECONDS, "the time is linear in the number of readers: %.2f s", seconds);
}

/* Begins a certificate of n nodes that share one cost list, in a net with `tensors` tensors. The caller appends the
 * rest. */
static struct str
nodes(int n, int tensors, int candidates)
{
    struct str s = {0};
    str_addf(&s, "rille certificate 2\nnet %d %d 1 0\nlist 0 %d", n, tensors, candidates);
    for (int k = 0; k < candidates; k++) str_add(&s, " 0");
    str_add(&s, "\n");
    for (int k = 0; k < n; k++) str_add(&s, "node 0 0 -\n");
    return s;
}

static void
claim(struct str *s, int n)
{
    str_add(s, "scale 1\nchoice");
    for (int k = 0; k < n; k++) str_add(s, " 0");
    str_add(s, "\ncost 0\nbound 0\nproof\n");
}

/* Writes a certificate with nested case splits, so deep that checking it would need 2 GB. */
static void
cases(void)
{
    enum { WIDE = 3000, DEEP = 900 };
    struct str s = nodes(2, 1, WIDE);
    str_add(&s, "list 1 1 0\ntensor 0 1 1 0 1 - 0 0 1 1 0\n");
    claim(&s, 2);
    for (int k = 0; k < DEEP; k++) str_add(&s, "split 0\ncase 0\n");
    ok(refused(&s, "the tables of costs must have at most"), "deeply nested cases are refused");
}

static void
bombs(void)
{
    enum { NODES = 20000, MANY = 65000 };
    struct str s = nodes(NODES, 0, MANY);
    claim(&s, NODES);
    str_add(&s, "end\n");
    ok(refused(&s, "the tables of costs must have at most"), "too many values are refused before memory is allocated");
    str_addf(&s, "rille certificate 2\nnet 2 1 1 0\nlist 0 %d", MANY);
    for (int k = 0; k < MANY; k++) str_add(&s, " 0");
    str_addf(&s, "\nnode 0 0 -\nlist 1 1 0\nnode 1 0 -\nlist 2 1 0\ntensor 0 1 1 0 2 - 0 0 1 1 1\n");
    claim(&s, 2);
    str_add(&s, "split 0\ncase 0\nround\n");
    for (int k = 0; k < NODES; k++) str_add(&s, "to 0 1 0 0\n");
    str_add(&s, "prune 1\n");
    ok(refused(&s, "too many or too few"), "repeated messages need no more memory, and an incomplete proof is refused");
}

int
main(void)
{
#ifndef __SANITIZE_ADDRESS__ /* AddressSanitizer itself needs memory, so splits are nested less deeply with it */
    struct rlimit most = {(rlim_t)3 << 30, (rlim_t)3 << 30};
    setrlimit(RLIMIT_AS, &most);
#endif
    test_forgeries();
    steps();
    many_forms();
    bombs();
    if (getenv("RILLE_LONG")) cases();
    return done();
}

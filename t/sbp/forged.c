/* Tests of sbp/proof/proof.c: certificates written by hand that claim what is not so, by the limits of numbers, are
 * refused; so are those that would take memory without end. */
#include "sbp/proof/proof.h"

#include "runtime/base/error.h"
#include "sbp/solve/certify.h"
#include "sbp/proof/proof_read.h"
#include "t/lib/tap.h"

#include <stdlib.h>
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

/* Node 0 costs 0, 0, 1000, and its candidate 0 costs `much` with each of three readers: the optimum is 0, of candidate
 * 1. */
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

/* Five nodes of so many bytes each at one time; the first costs 0 or 1000. */
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
lies(void)
{
    static const char CUTS[] = "cut 0 1\ncut 0 2\ncut 0 3\n";
    struct str s = three(10, 0, CUTS);
    ok(accepted(&s), "edges that are sums are cut off");
    s = three(NEVER - 1, 1000, CUTS);
    ok(refused(&s, "lower than can be checked"), "nothing is gained where a cost falls below what can be written");
    s = bytes(1 << 20, 5 << 20, 1 << 24, 0);
    ok(accepted(&s), "bytes have prices");
    s = bytes(1 << 30, (long long)1 << 40, (long long)1 << 60, 1000);
    ok(refused(&s, "larger than can be checked"), "nor where a limit is worth more than that");
    s = bytes(1 << 20, 0, (long long)1 << 40, 1000);
    ok(refused(&s, "without a limit"), "nor by prices of bytes that have no limit");
}

/* Where a bound is true a proof may still take steps that are none. */
static void
steps(void)
{
    struct str s = three(10, 0, "cut 0 1\nout 0\n");
    ok(accepted(&s), "a variable with two neighbours goes");
    s = three(10, 0, "out 0\n");
    ok(refused(&s, "more than two neighbours"), "one with three does not, though the bound is true");
    s = three(10, 0, "out 1\nout 2\nout 3\nout 0\n");
    ok(accepted(&s), "but when they are gone");
    str_add(&s, "rille certificate 2\nnet 2 1 1 0\nlist 0 1 0\nnode 0 0 -\nnode 0 0 -\nlist 1 1 5\n");
    str_add(&s, "tensor 0 1 1 0 1 - 0 0 2 1 0 1 0\nscale 1\nchoice 0 0\ncost 5\nbound 5\nproof\nout 2\nend\n");
    ok(accepted(&s), "who reads a form twice is one neighbour of it, and pays once");
    s = three(10, 0, "round\nprune -\n");
    ok(accepted(&s), "a bound closes the proof");
    s = three(10, 0, "round\nprune -\nsupport\n");
    ok(accepted(&s), "what stands behind it is passed: it proves no less");
    s = three(10, 0, "split 0\ncase 0\nround\nprune -\nend\ncase 1\nround\nprune -\nend\ncase 2\nend\n");
    ok(accepted(&s), "cases close it");
    s = three(10, 0, "split 0\ncase 0\nround\nprune -\nend\ncase 1\nround\nprune -\nend\ncase 2\nend\nout 1\n");
    ok(accepted(&s), "what stands behind them is passed, too");
}

/* Node 0 costs nothing, and each of n readers wants forms of its own: their number is that of the forms. */
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
    ok(accepted(&s), "a tensor with %d readers, each of which wants another form, is read", MANY);
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    ok(seconds < SECONDS, "in a time that grows as they do: %.2f s", seconds);
}

/* n nodes that have one list of costs, in a net with so many tensors; what stands behind them is the caller's. */
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

/* It takes 2 GB to be so many. */
static void
cases(void)
{
    enum { WIDE = 3000, DEEP = 900 };
    struct str s = nodes(2, 1, WIDE);
    str_add(&s, "list 1 1 0\ntensor 0 1 1 0 1 - 0 0 1 1 0\n");
    claim(&s, 2);
    for (int k = 0; k < DEEP; k++) str_add(&s, "split 0\ncase 0\n");
    ok(refused(&s, "tables larger"), "so are cases within cases");
}

static void
bombs(void)
{
    enum { NODES = 20000, MANY = 65000 };
    struct str s = nodes(NODES, 0, MANY);
    claim(&s, NODES);
    str_add(&s, "end\n");
    ok(refused(&s, "tables larger"), "so many values are refused, before there is memory for them");
    str_addf(&s, "rille certificate 2\nnet 2 1 1 0\nlist 0 %d", MANY);
    for (int k = 0; k < MANY; k++) str_add(&s, " 0");
    str_addf(&s, "\nnode 0 0 -\nlist 1 1 0\nnode 1 0 -\nlist 2 1 0\ntensor 0 1 1 0 2 - 0 0 1 1 1\n");
    claim(&s, 2);
    str_add(&s, "split 0\ncase 0\nround\n");
    for (int k = 0; k < NODES; k++) str_add(&s, "to 0 1 0 0\n");
    str_add(&s, "prune 1\n");
    ok(refused(&s, "more or less"),
       "messages that come again take no more memory, and a proof that breaks off is none");
}

int
main(void)
{
#ifndef __SANITIZE_ADDRESS__ /* which wants more for itself */
    struct rlimit most = {(rlim_t)3 << 30, (rlim_t)3 << 30};
    setrlimit(RLIMIT_AS, &most);
#endif
    lies();
    steps();
    many_forms();
    bombs();
    if (getenv("RILLE_LONG")) cases();
    return done();
}

/* Tests of sbp/proof/proof.c and sbp/solve/certify.c: the checker must accept every certificate of the search, and
 * reject every damaged one. The checker must also reject every false claim in a certificate with a right digest,
 * made by changing one field or line or by random steps. */
#include "sbp/proof/proof.h"

#include "runtime/base/error.h"
#include "sbp/solve/certify.h"
#include "sbp/search/explore.h"
#include "sbp/proof/proof_read.h"
#include "t/lib/plan/nets.h"
#include "t/lib/tap.h"

/* Solves a network and writes the certificate. more: true: the certificate claims optimality even if it is not
 * proved. */
static bool
written(struct arena *a, const struct net *n, bool more, struct solved *s, struct str *text)
{
    int status = net_solve(a, n, &(struct solve_options){.mode = SOLVE_OPTIMAL, .proof = true}, s);
    if (!status) net_prove(a, s);
    if (!status && more) s->bound = s->cost;
    if (!status) certify(s, 1, &(struct certify_with){"alpha_ns", 150}, text);
    str_free(&s->proof);
    return !status;
}

static bool
accepted(const char *text, size_t n)
{
    struct str said = {0};
    bool good = proof_check(text, n, &said) == 0;
    str_free(&said);
    return good;
}

/* Recomputes the digest of a changed certificate and checks the certificate. Returns true if it is accepted. */
static bool
accepted_sealed(const struct str *text)
{
    struct str other = {0};
    const char *last = str_text(text) + text->len - strlen("digest \n") - 32;
    str_addn(&other, str_text(text), (size_t)(last - str_text(text)));
    certify_seal(&other);
    bool good = accepted(other.text, other.len);
    str_free(&other);
    return good;
}

/* Adds `by` to the number on line "KEY VALUE" and checks the certificate. Returns true if it is accepted. */
static bool
accepted_with(const struct str *text, const char *key, int64_t by)
{
    struct str other = {0};
    const char *at = strstr(str_text(text), key);
    long long value = strtoll(at + strlen(key), NULL, 10);
    str_addn(&other, str_text(text), (size_t)(at - str_text(text)));
    str_addf(&other, "%s%lld", key, value + (long long)by);
    str_add(&other, strchr(at + 1, '\n'));
    bool good = accepted_sealed(&other);
    str_free(&other);
    return good;
}

/* Checks that every truncated certificate is rejected. */
static bool
cut_off_is_refused(const struct str *text)
{
    for (size_t n = 0; n < text->len; n += 1 + text->len / 97)
        if (accepted(text->text, n)) return false;
    return true;
}

/* Changes each byte of a certificate in turn, and checks that the changed certificate is rejected. */
static bool
change_is_refused(struct str *text)
{
    for (size_t at = 0; at < text->len; at += 1 + text->len / 499) {
        char was = text->text[at];
        text->text[at] = (char)(was ^ 1 << draw(8));
        bool good = accepted(text->text, text->len);
        text->text[at] = was;
        if (good) return false;
    }
    return true;
}

/* Changes random bytes and recomputes the digest. The checker must accept or reject each text, without a crash. An
 * accepted text with the same network must prove a true bound. */
static bool
changed_is_answered(struct str *text, int64_t optimum)
{
    for (int k = 0; k < 40; k++) {
        size_t at = (size_t)draw((int64_t)text->len);
        char was = text->text[at];
        text->text[at] = "0123456789 \n-abz"[draw(16)];
        bool same_net = at > (size_t)(strstr(str_text(text), "\nproof") - str_text(text));
        const char *claim = strstr(str_text(text), "\nbound ");
        if (accepted_sealed(text) && same_net && claim && strtoll(claim + 7, NULL, 10) > optimum) return false;
        text->text[at] = was;
    }
    return true;
}

/* Checks a certificate whose search found a higher bound than its proof shows: the message must report both
 * bounds. If the bound of the search is above the cost, or below the proved bound, the certificate must be
 * rejected. */
static bool
says_both(const struct str *text, const struct solved *s)
{
    struct str said = {0};
    char proven[40], searched[40];
    snprintf(proven, sizeof proven, "less than %lld ns", (long long)s->certified);
    snprintf(searched, sizeof searched, "no plan costs less than %lld ns", (long long)s->bound);
    bool good = !proof_check(text->text, text->len, &said) && strstr(str_text(&said), proven) &&
                strstr(str_text(&said), searched) && strstr(str_text(&said), "without a proof");
    str_free(&said);
    return good && !accepted_with(text, "\nsearched ", s->cost - s->bound + 1) &&
           !accepted_with(text, "\nsearched ", s->certified - s->bound);
}

/* ---- damage of every field and line ---- */

/* Returns true if a certificate's claims hold for its own net, by exhaustive search: the choice has the stated cost,
 * and no choice costs less than the bound. */
static bool
is_true(const struct str *text)
{
    struct proof r = {.at = text->text, .end = text->text + text->len, .line = 1};
    struct net n = {.nlevel = 1};
    bool holds = !proof_read(&r) && r.nnode <= NODES && !r.limit;
    n.node = ARENA_ARRAY(&r.arena, struct net_node, r.nnode + 1);
    n.tensor = ARENA_ARRAY(&r.arena, struct net_tensor, r.ntensor + 1);
    for (n.nnode = 0; holds && n.nnode < r.nnode; n.nnode++) {
        const struct proof_list *cost = r.node[n.nnode].cost;
        n.node[n.nnode] = (struct net_node){.ncand = (int32_t)cost->n, .cost = cost->x};
        if (cost->n > CANDS) holds = false;
    }
    for (n.ntensor = 0; holds && n.ntensor < r.ntensor; n.ntensor++) {
        const struct proof_tensor *t = &r.tensor[n.ntensor];
        struct net_use *use = ARENA_ARRAY(&r.arena, struct net_use, t->nuse + 1);
        uint16_t *form = ARENA_ARRAY(&r.arena, uint16_t, (t->nuse + 1) * CANDS);
        for (int64_t i = 0; i < t->form->n; i++) form[i] = (uint16_t)t->form->x[i];
        for (int64_t k = 0; k < t->nuse; k++) {
            use[k] = (struct net_use){.node = (int32_t)t->use[k].node, .form = form + (k + 1) * CANDS};
            for (int64_t i = 0; i < t->use[k].form->n; i++) form[(k + 1) * CANDS + i] = (uint16_t)t->use[k].form->x[i];
        }
        n.tensor[n.ntensor] = (struct net_tensor){
            .maker = (int32_t)t->maker, .form = form, .nfrom = (int32_t)t->nfrom, .nto = (int32_t)t->nto, .use = use};
        n.tensor[n.ntensor].nuse = (int32_t)t->nuse;
        n.tensor[n.ntensor].price = t->nuse ? t->price->x : NULL;
    }
    int32_t choice[NODES] = {0};
    int64_t peak;
    for (int32_t i = 0; holds && i < n.nnode; i++) choice[i] = (int32_t)r.choice[i];
    holds = holds && net_cost(&n, choice) == r.cost && exhaustive(&n, -1, 0, &peak) >= r.bound;
    arena_fini(&r.arena);
    return holds;
}

struct damage {
    int64_t made, refused, forgeries;
};

static void
try_damaged(struct str *other, struct damage *d)
{
    certify_seal(other);
    d->made++;
    if (!accepted(other->text, other->len))
        d->refused++;
    else if (!is_true(other) && d->forgeries++ < 3)
        diag("accepted, and not true:\n%s", other->text);
    str_free(other);
}

/* Damages each word: changes it, removes it, or writes it twice. Damages each line: removes it, writes it twice, or
 * swaps it with the next line. */
static void
damage_fields(const struct str *text, struct damage *d)
{
    enum { AS_IT_IS, MORE, LESS, NOUGHT, MUCH, DASH, NONE, TWICE, CHANGES };
    const char *all = str_text(text), *end = all + text->len - strlen("digest \n") - 32, *next;
    for (const char *at = all; at < end; at = next + (next < end)) {
        next = at + strcspn(at, " \n");
        for (int change = MORE; change < CHANGES; change++) {
            struct str other = {0};
            bool number = *at == '-' ? at[1] >= '0' && at[1] <= '9' : *at >= '0' && *at <= '9';
            long long x = number ? strtoll(at, NULL, 10) : 0;
            if (change <= MUCH && !number && *at != '-') continue;
            if ((change == NOUGHT && number && x == 0) || (change == DASH && !number && *at == '-')) continue;
            str_addn(&other, all, (size_t)(at - all));
            if (change == MORE || change == LESS) str_addf(&other, "%lld", change == MORE ? x + 1 : x - 1);
            if (change == NOUGHT) str_add(&other, "0");
            if (change == MUCH) str_add(&other, "4000000000000000000");
            if (change == DASH) str_add(&other, "-");
            for (int k = 0; k < 2 && change == TWICE; k++)
                str_addf(&other, "%.*s%s", (int)(next - at), at, k ? "" : " ");
            str_addn(&other, next, (size_t)(end - next));
            try_damaged(&other, d);
        }
    }
    for (const char *at = all; at < end; at = next) {
        next = strchr(at, '\n') + 1;
        const char *after = next < end ? strchr(next, '\n') + 1 : next;
        for (int change = 0; change < 3; change++) {
            struct str other = {0};
            str_addn(&other, all, (size_t)(at - all));
            if (change == 2) str_addn(&other, next, (size_t)(after - next));
            if (change) str_addn(&other, at, (size_t)(next - at));
            if (change == 1) str_addn(&other, at, (size_t)(next - at));
            str_addn(&other, change == 2 ? after : next, (size_t)(end - (change == 2 ? after : next)));
            try_damaged(&other, d);
        }
    }
}

/* Writes a false certificate: a choice that costs more, and a bound one above the optimum. Returns false if no such
 * choice was drawn. */
static bool
lying(const struct net *n, const struct solved *s, const struct str *text, struct str *out)
{
    const char *all = str_text(text), *proof = strstr(all, "\nproof");
    int32_t choice[NODES];
    int64_t cost = 0;
    for (int k = 0; k < 50 && (cost <= s->cost || cost >= NET_NEVER); k++) {
        for (int32_t i = 0; i < n->nnode; i++) choice[i] = (int32_t)draw(n->node[i].ncand);
        cost = net_cost(n, choice);
    }
    if (cost <= s->cost || cost >= NET_NEVER) return false;
    str_addn(out, all, (size_t)(strstr(all, "\nchoice") - all));
    str_add(out, "\nchoice");
    for (int32_t i = 0; i < n->nnode; i++) str_addf(out, " %d", (int)choice[i]);
    str_addf(out, "\ncost %lld\nbound %lld", (long long)cost, (long long)s->cost + 1);
    str_add(out, proof);
    return true;
}

/* Replaces the steps of a certificate by random steps, some of them within one case of a split. Returns true if
 * the checker refuses all such certificates. */
static bool
made_up_is_refused(const struct str *forgery)
{
    struct str other = {0};
    int64_t variables = 1 + draw(12);
    bool within = draw(3) == 0;
    str_addn(&other, str_text(forgery), (size_t)(strstr(str_text(forgery), "\nproof\n") + 7 - str_text(forgery)));
    if (within) str_addf(&other, "split %d\ncase %d\n", (int)draw(variables), (int)draw(CANDS));
    for (int64_t k = draw(20); k >= 0; k--) {
        int what = (int)draw(12), u = (int)draw(variables), v = (int)draw(variables);
        if (what < 7) str_addf(&other, "out %d\n", u);
        if (what == 7 || what == 8) str_addf(&other, "as %d %d\n", u, v);
        if (what == 9) str_addf(&other, "cut %d %d\n", u, v);
        if (what == 10) str_addf(&other, "drop %d %d %d\n", u, (int)draw(CANDS), (int)draw(CANDS));
        if (what == 11) str_add(&other, "support\n");
        struct str whole = {0};
        str_add(&whole, str_text(&other));
        str_add(&whole, within ? "end\nend\n" : "end\n");
        certify_seal(&whole);
        bool good = accepted(whole.text, whole.len);
        if (good) diag("accepted, and not true:\n%s", whole.text);
        str_free(&whole);
        if (good) return str_free(&other), false;
    }
    str_free(&other);
    return true;
}

static void
every_field(uint64_t seed, int n)
{
    struct damage d = {0};
    int lied = 0, lies_made = 0, made_up = 0;
    for (int k = 0; k < n; k++) {
        struct arena a = {0};
        struct str text = {0};
        struct solved s;
        struct net net = draw_net(&a, seed + (uint64_t)k);
        int64_t forgeries = d.forgeries;
        struct str forgery = {0};
        bool made = written(&a, &net, false, &s, &text);
        if (made) damage_fields(&text, &d);
        if (made && lying(&net, &s, &text, &forgery)) {
            damage_fields(&forgery, &d);
            lied += !accepted_sealed(&forgery);
            lies_made++;
            for (int i = 0; i < 300; i++) made_up += !made_up_is_refused(&forgery);
        }
        str_free(&forgery);
        if (d.forgeries > forgeries) diag("SEED=%llu", (unsigned long long)seed + (unsigned long long)k);
        str_free(&text);
        arena_fini(&a);
    }
    ok(d.made > 1000 * n, "%lld certificates have one damaged field or line", (long long)d.made);
    is_int(lied, lies_made, "a bound above the optimum, with a choice that costs more, is refused");
    is_int(made_up, 0, "such a bound with random steps is refused");
    ok(d.refused > d.made * 3 / 4, "%lld damaged certificates are refused", (long long)d.refused);
    is_int(d.forgeries, 0, "the other damaged certificates make true claims about their own nets");
}

/* Draws a net with too many nodes for an exhaustive search and with random connections, so that searches branch. */
static struct net
draw_tangle(struct arena *a, uint64_t seed)
{
    net_state = seed;
    for (int i = 0; i < 4; i++) draw(2);
    struct net n = {.nnode = (int32_t)(10 + draw(20)), .nlevel = 1};
    int most = draw(2) ? 50 : 5000;
    draw_nodes(a, &n, 2, most, 0);
    n.ntensor = (int32_t)(2 * n.nnode + draw(n.nnode));
    n.tensor = ARENA_ARRAY(a, struct net_tensor, n.ntensor + 1);
    for (int32_t i = 0; i < n.ntensor; i++) {
        struct net_tensor *t = &n.tensor[i];
        draw_tensor(a, &n, t, (int32_t)draw(n.nnode));
        int64_t *price = ARENA_ARRAY(a, int64_t, t->nfrom * t->nto);
        for (int32_t k = 0; k < t->nfrom * t->nto; k++) price[k] = draw(most);
        t->price = price;
    }
    return n;
}

/* Stops a search: returns true after `left` calls. */
static bool
runs_out(void *left)
{
    return --*(int64_t *)left < 0;
}

/* Runs a search without a start choice, and without better choices from outside. The search then finds better
 * choices late, perhaps in the last case of a split. So it has recorded more steps than a proof of the best choice
 * needs. */
static int
search_alone(struct arena *a, const struct net *n, bool (*stop)(void *), void *arg, struct solved *s)
{
    struct explore e = {.stop = stop, .arg = arg, .scale = cfn_scale(n), .best = NET_NEVER, .nchoice = n->nnode};
    struct cfn *c = cfn_new(n, e.scale, NULL);
    *s = (struct solved){.net = n, .scale = e.scale, .ntime = net_times(n)};
    s->choice = e.choice = ARENA_ARRAY(a, int32_t, n->nnode);
    e.trail.text = &s->proof;
    int64_t bound = explore(&e, c);
    cfn_free(&c);
    if (e.best >= NET_NEVER) return E_PLAN;
    s->cost = e.best / e.scale;
    s->bound = s->certified = bound <= 0 ? 0 : (bound - 1) / e.scale + 1;
    return 0;
}

/* Checks that the certificate of a search is accepted: for any mode, start and limit, with and without branches,
 * and if the search ends early at any time. */
static void
every_search(uint64_t seed, int n)
{
    int made = 0, good = 0, branched = 0, ended = 0;
    for (int k = 0; k < n; k++) {
        struct arena a = {0};
        struct str text = {0};
        struct solved s;
        struct net net = draw_tangle(&a, seed + (uint64_t)k);
        int64_t left = draw(3) ? INT64_MAX : draw(1000);
        int64_t questions = left;
        int32_t *start = ARENA_ARRAY(&a, int32_t, net.nnode);
        struct solve_options o = {.mode = draw(3) ? SOLVE_OPTIMAL : (enum solve_mode)draw(NSOLVE), .proof = true};
        o.start = draw(2) ? start : NULL;
        o.stop = runs_out;
        o.arg = &left;
        bool alone = draw(2);
        /* limits the work of a search without a start, which has no other limit */
        if (alone) left = questions = draw(1000);
        if (!alone && draw(4) == 0) net.memory_limit = 20 + draw(60);
        int status = alone ? search_alone(&a, &net, runs_out, &left, &s) : net_solve(&a, &net, &o, &s);
        ended += left < 0;
        if (!status) {
            net_prove(&a, &s);
            certify(&s, 1, &(struct certify_with){"alpha_ns", 150}, &text);
            made++;
            branched += s.proof.len && strstr(s.proof.text, "split ") != NULL;
            if (accepted(text.text, text.len))
                good++;
            else
                diag("SEED=%llu, %s, mode %d, limit %lld, %lld questions: %s",
                     (unsigned long long)seed + (unsigned long long)k, alone ? "alone" : "all", (int)o.mode,
                     (long long)net.memory_limit, (long long)questions, err_text());
        }
        str_free(&s.proof);
        str_free(&text);
        arena_fini(&a);
    }
    ok(branched > n / 20 && ended > n / 20, "%d searches branched, and %d ended early", branched, ended);
    is_int(good, made, "each certificate of these searches is accepted");
}

/* Adds a tensor with one reader. Each candidate of the producer, and of the reader, has its own layout.
 * price[i][j]: price of converting if the producer has candidate i and the reader candidate j. */
static void
converts(struct arena *a, struct net *n, int32_t maker, int32_t reader, const int64_t *price)
{
    static const uint16_t own[] = {0, 1, 2};
    struct net_use *use = ARENA_NEW(a, struct net_use);
    *use = (struct net_use){.node = reader, .form = own};
    struct net_tensor t = {.maker = maker, .form = own, .nuse = 1, .use = use, .price = price};
    t.nfrom = n->node[maker].ncand;
    t.nto = n->node[reader].ncand;
    n->tensor[n->ntensor++] = t;
}

/* Tests impossible values with negative costs. The edge from V to W is a sum of one number per end, so the search
 * cuts it; then V's second value costs less than zero. A's first value needs B's first, and V has no value
 * compatible with both, so no choice has A's first. B stays until V is eliminated because B has an edge to W, too. A
 * stays longer, because of C, D and E. Suppose a search considers V's value possible with B's first. That search
 * would drop A's first value only after V is eliminated. */
static void
impossible_below_zero(void)
{
    enum { V, A, B, W, C, D, E, N };
    static const int64_t free_of_cost[3];
    static const int64_t falls[] = {5, 5, 0, 0}, v_a[] = {NET_NEVER, 0, 0, 0, 0, 0}, v_b[] = {0, 0, NET_NEVER, 0},
                         a_b[] = {0, NET_NEVER, 0, 0, 0, 1}, any[] = {3, 1, 4, 1, 5, 9, 2, 6, 5};
    struct arena a = {0};
    struct net n = {.nnode = N, .nlevel = 1};
    struct solved s;
    struct str text = {0};
    n.node = ARENA_ARRAY(&a, struct net_node, N);
    n.tensor = ARENA_ARRAY(&a, struct net_tensor, N * N);
    for (int32_t i = 0; i < N; i++)
        n.node[i] = (struct net_node){.ncand = i == V || i == B || i == W ? 2 : 3, .cost = free_of_cost, .time = i};
    converts(&a, &n, V, A, v_a);
    converts(&a, &n, V, B, v_b);
    converts(&a, &n, A, B, a_b);
    converts(&a, &n, V, W, falls);
    converts(&a, &n, B, W, falls);
    static const int32_t core[] = {A, C, D, E};
    for (int i = 0; i < 4; i++)
        for (int j = i + 1; j < 4; j++) converts(&a, &n, core[i], core[j], any);
    int64_t peak, least = exhaustive(&n, -1, 0, &peak);
    ok(!search_alone(&a, &n, NULL, NULL, &s) && s.cost == least,
       "impossible values with negative costs: the optimum is found");
    certify(&s, 1, &(struct certify_with){"alpha_ns", 150}, &text);
    if (!ok(accepted(text.text, text.len), "impossible values with negative costs: the certificate is accepted"))
        diag("%s", err_text());
    str_free(&s.proof);
    str_free(&text);
    arena_fini(&a);
}

int
main(void)
{
    uint64_t seed = seed_of(1);
    int n = getenv("RILLE_LONG") ? 10000 : 600, made = 0, good = 0, higher = 0, lower = 0, cut = 0, changed = 0,
        damaged = 0, twice = 0, more = 0, both = 0;
    for (int k = 0; k < n; k++) {
        struct arena a = {0};
        struct str text = {0};
        struct solved s;
        struct net net = draw_net(&a, seed + (uint64_t)k);
        if (k % 3 == 0) net.memory_limit = 10 + draw(40);
        if (written(&a, &net, k % 2, &s, &text)) {
            made++;
            if (accepted(text.text, text.len))
                good++;
            else
                diag("SEED=%llu: %s", (unsigned long long)seed + (unsigned long long)k, err_text());
            higher += !accepted_with(&text, "\nbound ", s.cost - s.certified + 1);
            lower += !accepted_with(&text, "\ncost ", -1);
            cut += cut_off_is_refused(&text);
            damaged += change_is_refused(&text);
            changed += changed_is_answered(&text, s.cost);
            more += s.bound > s.certified;
            both += s.bound > s.certified ? says_both(&text, &s) : !strstr(text.text, "\nsearched ");
            size_t len = text.len;
            char *copy = strdup(text.text);
            str_addn(&text, copy, len);
            twice += !accepted(text.text, text.len);
            free(copy);
        }
        str_free(&text);
        arena_fini(&a);
    }
    ok(made > n / 2, "there are certificates: %d", made);
    is_int(good, made, "each certificate is accepted");
    is_int(higher, made, "a bound above the cost is refused");
    is_int(lower, made, "a cost one less is refused");
    is_int(cut, made, "a truncated certificate is refused");
    is_int(damaged, made, "a certificate with a changed byte is refused");
    is_int(changed, made, "a certificate with changed bytes and a new digest never proves a false bound");
    ok(more > 0, "in %d certificates the search showed more than the proof", more);
    is_int(both, made, "the message reports the unproven bound as not proven");
    is_int(twice, made, "two certificates in one file are refused");
    ok(!accepted("", 0), "an empty text is refused");
    every_search(seed + 90000, getenv("RILLE_LONG") ? 20000 : 80);
    impossible_below_zero();
    every_field(seed + 50000, getenv("RILLE_LONG") ? 400 : 24);
    return done();
}

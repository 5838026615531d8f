/* Tests of sbp/proof.c and sbp/certify.c: every certificate that the search writes is accepted, no damaged one is, and
 * none with a digest of its own that claims more than is true. */
#include "sbp/proof.h"

#include "runtime/error.h"
#include "sbp/certify.h"
#include "t/nets.h"
#include "t/tap.h"

static bool
written(struct arena *a, const struct net *n, struct solved *s, struct str *text)
{
    int status = net_solve(a, n, &(struct solve_options){.mode = SOLVE_OPTIMAL, .proof = true}, s);
    if (!status) net_prove(a, s);
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

/* The same with the digest of what stands above it. */
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

/* The text with one line "KEY VALUE" changed by so much. */
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

/* No prefix of a certificate is one. */
static bool
cut_off_is_refused(const struct str *text)
{
    for (size_t n = 0; n < text->len; n += 1 + text->len / 97)
        if (accepted(text->text, n)) return false;
    return true;
}

/* No text with one byte changed is accepted. */
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

/* Whatever bytes are changed: an answer. What is accepted then, with a digest of its own, proves what it says, so a
 * true bound. */
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

/* Where the search showed more than the proof does, the checker says both, and nothing that cannot be. */
static bool
says_both(const struct str *text, const struct solved *s)
{
    struct str said = {0};
    char proven[40], searched[40];
    snprintf(proven, sizeof proven, "less than %lld ns", (long long)s->certified);
    snprintf(searched, sizeof searched, "none costs less than %lld ns", (long long)s->bound);
    bool good = !proof_check(text->text, text->len, &said) && strstr(str_text(&said), proven) &&
                strstr(str_text(&said), searched) && strstr(str_text(&said), "not proven here");
    str_free(&said);
    return good && !accepted_with(text, "\nsearched ", s->cost - s->bound + 1) &&
           !accepted_with(text, "\nsearched ", s->certified - s->bound);
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
        if (written(&a, &net, &s, &text)) {
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
    is_int(good, made, "each is accepted");
    is_int(higher, made, "a bound above the cost is refused");
    is_int(lower, made, "a cost one less is refused");
    is_int(cut, made, "half of one is refused");
    is_int(damaged, made, "one with a changed byte is refused");
    is_int(changed, made, "one with changed bytes and their digest is answered, and never proves what is not so");
    ok(more > 0, "in %d the search showed more", more);
    is_int(both, made, "which is said, and not as if it were proven");
    is_int(twice, made, "two in one file are refused");
    ok(!accepted("", 0), "so is nothing");
    return done();
}

/* pattern.c - translates patterns written for other regular expression libraries to PCRE2. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "runtime/text/encode/pattern.h"

#include "runtime/text/characters/classes.h"

#include <ctype.h>
#include <pcre2.h>
#include <string.h>

/* ---- translating a pattern to PCRE2's syntax ---- */

#define WORDS      "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define RUST_WORDS WORDS "\\x{200c}\\x{200d}"

/* Character classes, by the letter after the backslash, that match other characters in PCRE2 than in the dialect:
 * PCRE2's \s also matches U+180E, its \w excludes marks, and its version of Unicode may be older. The capital letter
 * stands for all other characters. */
enum { RUST = 1, OTHERS = 2 };
static const struct {
    char letter;
    int of; /* dialects to which the entry applies, as bits */
    /* PCRE2 syntax for the class and for the capital letter's characters within a set; NULL: there is none */
    const char *set, *others;
    const char *newer[4]; /* categories whose newer characters belong to the class */
    const char *alone;    /* members that the class has outside of sets only; NULL: none */
} classes[] = {
    {'s', RUST | OTHERS, "\\p{White_Space}", "\\P{White_Space}", {0}, NULL},
    {'d', RUST | OTHERS, "\\p{Nd}", "\\P{Nd}", {"Nd"}, NULL},
    {'w', RUST, RUST_WORDS, NULL, {"L", "M", "Nd"}, NULL},
    {'w', OTHERS, WORDS, NULL, {"L", "M", "Nd"}, "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"},
};

/* Returns the end of an escape sequence, such as \s, \p{L} or \x{20}. */
static const char *
skip_escape(const char *p)
{
    if (!p[1]) return p + 1;
    const char *end = strchr("pPx", p[1]) && p[2] == '{' ? strchr(p, '}') : NULL;
    return end ? end + 1 : p + 2;
}

/* Returns true if the name is the name of a script. For scripts, PCRE2 differs from other libraries: its \p{Han}
 * also matches characters that are used in several scripts, and not only characters of script Han. */
static bool
is_script(const char *name, size_t n)
{
    char pattern[64] = "\\p{sc:";
    size_t begin = strlen(pattern), at;
    int code;
    if (n > sizeof pattern - begin - 2) return false;
    memcpy(pattern + begin, name, n);
    memcpy(pattern + begin + n, "}", 2);
    pcre2_code *script = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF, &code, &at, NULL);
    pcre2_code_free(script);
    return script != NULL;
}

/* State of a translation. Within a set, the members are appended to three texts. */
struct spelling {
    enum dialect dialect;
    bool newer;          /* true: classes also have the characters that PCRE2 may lack */
    struct str *out;     /* the pattern, or all members of the set */
    struct str *rest;    /* members that are no negated class; NULL: not within a set */
    struct str *lacking; /* characters that a negated class wrongly has, because PCRE2 may lack them */
};

/* Appends a class as a set, or its members if the class is part of a set. newer: characters of the class that PCRE2
 * may lack. */
static void
spell_members(const struct spelling *s, const char *members, const char *newer, bool negated)
{
    if (!s->rest) {
        str_addf(s->out, "[%s%s%s]", negated ? "^" : "", members, newer);
    } else if (negated) {
        str_add(s->out, members);
        str_add(s->lacking, newer);
    } else {
        str_addf(s->out, "%s%s", members, newer);
        str_addf(s->rest, "%s%s", members, newer);
    }
}

/* Returns true for Lu, Ll and Lt: where (?i) ignores case, PCRE2 from 10.45 on lets each of them match every letter
 * that has a case; Oniguruma and older versions do not. */
static bool
is_case(const char *name, size_t n)
{
    return n == 2 && name[0] == 'L' && strchr("ult", name[1]);
}

/* Appends the property at p, which ends at `end`: \p{L}, \p{^L} or \pL. */
static void
spell_property(const struct spelling *s, const char *p, const char *end)
{
    struct str newer = {0}, members = {0};
    bool braced = p[2] == '{', other = braced && p[3] == '^', negated = (p[1] == 'P') != other;
    const char *name = p + 2 + braced + other;
    size_t n = (size_t)(end - name) - braced;
    str_addf(&members, "\\%c{%s%.*s}", s->rest && negated ? 'P' : 'p', is_script(name, n) ? "sc:" : "", (int)n, name);
    if (s->newer) class_add_newer(&newer, name, n);
    bool exact = !s->rest && is_case(name, n);
    if (exact) str_add(s->out, "(?-i:");
    spell_members(s, str_text(&members), str_text(&newer), negated);
    if (exact) str_add(s->out, ")");
    str_free(&members);
    str_free(&newer);
}

static bool
spell_class(const struct spelling *s, char letter)
{
    int of = s->dialect == DIALECT_RUST ? RUST : OTHERS;
    struct str newer = {0};
    size_t i = 0;
    while (i < countof(classes) && (tolower(letter) != classes[i].letter || !(classes[i].of & of))) i++;
    if (i == countof(classes)) return false;
    bool negated = letter != classes[i].letter;
    const char *members = s->rest && negated ? classes[i].others : classes[i].set;
    for (int k = 0; s->newer && classes[i].newer[k]; k++)
        class_add_newer(&newer, classes[i].newer[k], strlen(classes[i].newer[k]));
    if (!s->rest && classes[i].alone) str_add(&newer, classes[i].alone);
    if (members) spell_members(s, members, str_text(&newer), negated);
    str_free(&newer);
    return members != NULL;
}

static const char *
spell_as_is(const struct spelling *s, const char *p, const char *end)
{
    str_addn(s->out, p, (size_t)(end - p));
    if (s->rest) str_addn(s->rest, p, (size_t)(end - p));
    return end;
}

static const char *
spell_escape(const struct spelling *s, const char *p)
{
    const char *end = skip_escape(p);
    if (p[1] && spell_class(s, p[1])) return p + 2;
    bool property = p[1] == 'p' || p[1] == 'P';
    if (property && p[2] && p[2] != '{') end = p + 3;
    if (!property || end <= p + 2) return spell_as_is(s, p, end);
    spell_property(s, p, end);
    return end;
}

/* Returns the length of "[" or "[^", including a "]" directly after it, which is a member of the set. */
static size_t
set_begin(const char *p)
{
    size_t n = p[1] == '^' ? 2 : 1;
    return p[n] == ']' ? n + 1 : n;
}

/* Appends a set whose negated classes have the characters `lacking` too many. */
static void
spell_corrected(const struct spelling *of, bool negated, struct str *out)
{
    const char *all = str_text(of->out), *rest = str_text(of->rest), *lacking = str_text(of->lacking);
    if (negated) {
        str_addf(out, "(?:[^%s]|", all);
        if (*rest) str_addf(out, "(?![%s])", rest);
        str_addf(out, "[%s])", lacking);
    } else {
        str_addf(out, "(?:(?![%s])[%s]", lacking, all);
        if (*rest) str_addf(out, "|[%s]", rest);
        str_add(out, ")");
    }
}

/* Appends the set at p. Returns its end. */
static const char *
spell_set(const struct spelling *s, const char *p)
{
    struct str all = {0}, rest = {0}, lacking = {0};
    const struct spelling in = {s->dialect, s->newer, &all, &rest, &lacking};
    bool negated = p[1] == '^';
    p = spell_as_is(&in, p + 1 + negated, p + set_begin(p));
    while (*p && *p != ']') p = *p == '\\' ? spell_escape(&in, p) : spell_as_is(&in, p, p + 1);
    if (lacking.len && *p)
        spell_corrected(&in, negated, s->out);
    else
        str_addf(s->out, "[%s%s%s", negated ? "^" : "", str_text(&all), *p ? "]" : "");
    str_free(&all);
    str_free(&rest);
    str_free(&lacking);
    return *p ? p + 1 : p;
}

void
pattern_spell(const char *pattern, enum dialect dialect, bool newer, struct str *out)
{
    const struct spelling s = {.dialect = dialect, .newer = newer, .out = out};
    for (const char *p = pattern; *p;)
        p = *p == '\\' ? spell_escape(&s, p) : *p == '[' ? spell_set(&s, p) : spell_as_is(&s, p, p + 1);
}

/* ---- finding syntax that has another meaning in PCRE2 ---- */

/* Letters that have another meaning in PCRE2 after a backslash, by dialect: outside and inside a set. */
static const struct {
    const char *alone, *set, *alone_told, *set_told;
} letters[] = {
    [DIALECT_OWN] = {"", "", NULL, NULL},
    [DIALECT_ONIGURUMA] = {"bBEGhHKQRvVXyY", "EhHQvVW",
                           "one of \\b \\B \\E \\G \\h \\H \\K \\Q \\R \\v \\V \\X \\y \\Y",
                           "one of \\E \\h \\H \\Q \\v \\V \\W within a set"},
    [DIALECT_RUST] = {"EhHKQvVX", "EhHQvVW", "one of \\E \\h \\H \\K \\Q \\v \\V \\X",
                      "one of \\E \\h \\H \\Q \\v \\V \\W within a set"},
};

static const char *
foreign_escape(const char *p, enum dialect dialect)
{
    if (!p[1]) return NULL;
    if (strchr(letters[dialect].alone, p[1])) return letters[dialect].alone_told;
    if (dialect != DIALECT_ONIGURUMA) return NULL;
    if ((p[1] == 'p' || p[1] == 'P') && p[2] != '{') return "\\p without { }";
    return p[1] == 'g' && p[2] != '<' ? "\\g without < >" : NULL;
}

static const char *
foreign_in_set(const char *p, enum dialect dialect)
{
    if (!strncmp(p, "&&", 2)) return "an intersection of sets, &&";
    if (*p == '[') return "a set within a set";
    if (dialect == DIALECT_RUST && (!strncmp(p, "--", 2) || !strncmp(p, "~~", 2)))
        return "a difference of sets, -- or ~~";
    if (*p != '\\' || !p[1]) return NULL;
    if (strchr(letters[dialect].set, p[1])) return letters[dialect].set_told;
    bool braced = (p[1] != 'p' && p[1] != 'P') || p[2] == '{';
    return dialect == DIALECT_ONIGURUMA && !braced ? "\\p without { }" : NULL;
}

/* Returns the end of a set. *part: set to the first syntax inside the set that has another meaning in PCRE2. */
static const char *
skip_set(const char *p, enum dialect dialect, const char **part)
{
    for (p += set_begin(p); *p && *p != ']' && !*part;) {
        if (dialect != DIALECT_OWN) *part = foreign_in_set(p, dialect);
        p = *p == '\\' ? skip_escape(p) : p + 1;
    }
    return *p ? p + 1 : p;
}

/* Returns a description of the quantifier {,3} or {2}? at p; NULL: p is at neither. A + after the closing brace is
 * reported by the caller. */
static const char *
foreign_interval(const char *p, enum dialect dialect)
{
    if (p[1] == ',' && isdigit((unsigned char)p[2])) return "an interval without a minimum, {,n}";
    size_t digits = strspn(p + 1, "0123456789");
    return dialect == DIALECT_ONIGURUMA && digits && !strncmp(p + 1 + digits, "}?", 2) ? "an optional interval, {n}?"
                                                                                       : NULL;
}

/* Returns true if p points to a letter that equals a sequence of letters when case is ignored, or to such a
 * sequence. Example: "ss" equals U+00DF. */
static bool
folds_to_several(const unsigned char *p)
{
    static const char *const joined[] = {"ss", "st", "ff", "fi", "fl"};
    if ((*p >= 0xc2 && *p <= 0xdf) || *p == 0xe1 || (*p == 0xef && p[1] == 0xac)) return true;
    for (size_t i = 0; i < countof(joined); i++)
        if (tolower(p[0]) == joined[i][0] && tolower(p[1]) == joined[i][1]) return true;
    return false;
}

/* Returns true if p begins with \p{Lu}, \P{Lu}, \p{^Lu}, or the same with Ll or Lt. */
static bool
has_case_property(const char *p)
{
    if (p[0] != '\\' || (p[1] != 'p' && p[1] != 'P') || p[2] != '{') return false;
    p += p[3] == '^' ? 4 : 3;
    return is_case(p, strcspn(p, "}"));
}

/* Returns a description of the first syntax, from p to the end of the group, that has another meaning in PCRE2
 * when case is ignored; NULL: none. */
static const char *
foreign_caseless(const char *p, enum dialect dialect)
{
    bool set = false;
    for (int depth = 0; *p && depth >= 0; p = *p == '\\' ? skip_escape(p) : p + 1) {
        if (*p == '(') depth++;
        if (*p == ')') depth--;
        if (*p == '[' || *p == ']') set = *p == '[';
        if (dialect == DIALECT_ONIGURUMA && set && has_case_property(p))
            return "a property Lu, Ll or Lt in a set, where the option (?i) ignores case";
        if (dialect == DIALECT_RUST && *p == '\\' && (p[1] == 'p' || p[1] == 'P'))
            return "a Unicode property, \\p or \\P, where the option (?i) ignores case";
        if (dialect == DIALECT_ONIGURUMA && folds_to_several((const unsigned char *)p))
            return "the option (?i) before a letter that equals several letters, such as U+00DF and ss";
    }
    return NULL;
}

static const char *
foreign_options(const char *p, enum dialect dialect)
{
    size_t n = strspn(p + 2, "abcdefghijklmnopqrstuvwxyz-");
    const char *end = p + 2 + n, *off = memchr(p + 2, '-', n);
    if (!n || (*end != ':' && *end != ')')) return NULL;
    if (dialect == DIALECT_ONIGURUMA && (memchr(p + 2, 'm', n) || memchr(p + 2, 's', n)))
        return "an option m or s, (?m) or (?s)";
    return memchr(p + 2, 'i', (size_t)((off ? off : end) - p - 2)) ? foreign_caseless(end + 1, dialect) : NULL;
}

static const char *
foreign_pattern(const char *pattern, enum dialect dialect, bool anchors)
{
    const char *part = NULL;
    for (const char *p = pattern; *p && !part;) {
        if (dialect == DIALECT_ONIGURUMA && !strncmp(p, "}+", 2)) part = "a possessive interval, }+";
        if (dialect != DIALECT_OWN && *p == '{') part = foreign_interval(p, dialect);
        if (dialect != DIALECT_OWN && !strncmp(p, "(?", 2)) part = foreign_options(p, dialect);
        if (*p == '\\') part = foreign_escape(p, dialect);
        if (anchors && (*p == '^' || *p == '$')) part = "a line anchor, ^ or $";
        p = *p == '\\' ? skip_escape(p) : *p == '[' ? skip_set(p, dialect, &part) : p + 1;
    }
    return part;
}

const char *
pattern_foreign(const char *pattern, enum dialect dialect)
{
    return foreign_pattern(pattern, dialect, false);
}

static bool
has_words(const char *p)
{
    for (; *p; p = *p == '\\' ? skip_escape(p) : p + 1)
        if (*p == '\\' && (p[1] == 'w' || p[1] == 'W')) return true;
    return false;
}

const char *
pattern_moved(const char *pattern, enum dialect dialect)
{
    if (dialect == DIALECT_RUST && has_words(pattern)) return "a word class, \\w or \\W";
    return dialect == DIALECT_ONIGURUMA ? NULL : foreign_pattern(pattern, DIALECT_ONIGURUMA, true);
}

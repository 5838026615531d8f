/* base.c - tests of the basic modules: errors, arenas, strings, sorted lists. */
#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "runtime/data/sorted.h"
#include "runtime/data/str.h"
#include "t/lib/tap.h"

#include <pthread.h>

static int
passes_on(int status)
{
    TRY(status);
    return 0;
}

static void *
other_thread(void *text)
{
    fail(E_IO, "%s", (const char *)text);
    return NULL;
}

static void
test_errors(void)
{
    char big[5000];
    pthread_t thread;

    err_clear();
    ok(err_last() == E_OK && !*err_text(), "a thread begins without an error");
    is_int(fail(E_SHAPE, "k is %d in a", 3), E_SHAPE, "fail returns its code");
    is_str(err_text(), "k is 3 in a", "fail keeps its text");
    ok(passes_on(E_SHAPE) == E_SHAPE && passes_on(0) == 0, "TRY passes a code on");
    err_note("%s", "matmul");
    is_str(err_text(), "matmul: k is 3 in a", "err_note prefixes the text");
    fail(E_ARG, "<%s>", err_text());
    is_str(err_text(), "<matmul: k is 3 in a>", "an error text may quote the previous text");

    pthread_create(&thread, NULL, other_thread, "elsewhere");
    pthread_join(thread, NULL);
    ok(err_last() == E_ARG, "each thread has its own error");

    memset(big, 'x', sizeof big);
    big[sizeof big - 1] = '\0';
    fail(E_IO, "%s", big);
    is_int((int64_t)strlen(err_text()), 1999, "a long text is truncated");
    err_note("%s", big);
    ok(strlen(err_text()) == 1999 && strstr(err_text(), ": x"),
       "a long note is truncated, and leaves space for the text");

    int unnamed = 0;
    for (int code = 0; code < NERR; code++) unnamed += !*err_name((enum err_code)code);
    is_int(unnamed, 0, "every code has a name");
}

static void
test_arena(void)
{
    enum { N = 2000 };
    struct arena a = {0};
    uint8_t *piece[N];
    int wrong = 0;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++) {
            size_t n = (size_t)(i * 37 % 5000);
            piece[i] = arena_alloc(&a, n);
            wrong += (uintptr_t)piece[i] % 16 != 0;
            for (size_t k = 0; k < n; k++) wrong += piece[i][k] != 0;
            memset(piece[i], i, n);
        }
        for (int i = 0; i < N; i++)
            for (size_t k = 0; k < (size_t)(i * 37 % 5000); k++) wrong += piece[i][k] != (uint8_t)i;
        arena_reset(&a);
    }
    is_int(wrong, 0, "allocations are zeroed, aligned to 16 bytes and disjoint, after a reset, too");
    ok(a.used_bytes == 0 && a.head, "a reset keeps a chunk");
    uint8_t *huge = arena_alloc(&a, (size_t)8 << 20);
    huge[((size_t)8 << 20) - 1] = 1;
    is_str(arena_strdup(&a, "text"), "text", "a string is copied");
    arena_fini(&a);
    ok(!a.head, "arena_fini frees all allocations");
}

static void
test_str(void)
{
    struct str s = {0}, sum = {0};
    is_str(str_text(&s), "", "a fresh string is empty");
    for (int i = 0; i < 300; i++) str_addf(&s, "%d,", i);
    ok(s.len == strlen(s.text) && s.len == 10 * 2 + 90 * 3 + 200 * 4, "a string grows as needed");
    str_clear(&s);
    str_add(&s, "one\n");
    str_add(&s, "ab");
    str_pad(&s, 5);
    str_add(&s, "|");
    is_str(str_text(&s), "one\nab   |", "str_pad counts columns from the last newline");
    str_addn(&sum, "a\0b", 3);
    ok(sum.len == 3 && !memcmp(sum.text, "a\0b", 4), "a string may contain zero bytes");
    str_free(&sum);
    str_free(&s);
    ok(!s.text && s.len == 0, "a freed string is empty");
}

static void
test_sorted(void)
{
    int32_t list[] = {3, -1, 3, INT32_MAX, INT32_MIN, 0, -1}, right = 0;
    int64_t wide[] = {INT64_MAX, 7, INT64_MIN, 7};
    int32_t n = sorted_once(list, (int32_t)countof(list));
    for (int32_t i = 0; i < n; i++) right += (i == 0 || list[i - 1] < list[i]) && sorted_find(list, n, list[i]) == i;
    ok(n == 5 && right == n, "a sorted list has each number once, and finds its index");
    ok(sorted_find(list, n, 1) == -1 && sorted_find(list, 0, 1) == -1 && sorted_once(list, 0) == 0,
       "a missing number is not found");
    ok(sorted_once64(wide, 4) == 3 && wide[0] == INT64_MIN && wide[1] == 7 && wide[2] == INT64_MAX,
       "numbers may have 64 bits");
    ok(text_ends("a.npy", ".npy") && !text_ends("npy", ".npy") && text_ends("", ""),
       "text_ends compares the end of a text");
}

int
main(void)
{
    test_errors();
    test_arena();
    test_str();
    test_sorted();
    return done();
}

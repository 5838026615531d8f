/* programs.c - the main function of a program that contains the tests of one folder of t/. For example, "t/bin/plan
 * NAME" runs the test NAME of t/plan, and "t/bin/plan" lists the tests. cmake/tests.cmake writes the file TESTS,
 * which has a line TEST("NAME", FUNCTION) for each test; FUNCTION is the main function of the test. A test gets the
 * arguments after its name. */
#include <stdio.h>
#include <string.h>

typedef int test_main(int argc, char **argv);

/* Declares each test function with two arguments. Many are defined without parameters and ignore the arguments. */
#define TEST(name, function) test_main function;
#include TESTS
#undef TEST

static const struct {
    const char *name;
    test_main *run;
} tests[] = {
#define TEST(name, function) {name, function},
#include TESTS
};

enum { NTESTS = sizeof tests / sizeof *tests };

int
main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    for (int i = 0; i < NTESTS; i++) {
        if (strcmp(tests[i].name, name)) continue;
        argv[1] = argv[0];
        return tests[i].run(argc - 1, argv + 1);
    }
    FILE *to = argc > 1 ? stderr : stdout;
    if (argc > 1) fprintf(to, "%s: unknown test \"%s\"; expected one of:\n", argv[0], name);
    for (int i = 0; i < NTESTS; i++) fprintf(to, "%s\n", tests[i].name);
    return argc > 1 ? 2 : 0;
}

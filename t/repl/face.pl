#!/usr/bin/perl
# face.pl rille.h - writes a C program that calls every function of rille.h with valid arguments, then with each pointer NULL
# in turn, with each handle of another session in turn, from another thread, and in a child made by fork(). Each call runs
# in a forked process. The program prints TAP, one line per function.
use strict;
use warnings;

local $/;
my $header = <>;
$header =~ s{/\*.*?\*/}{}gs;
$header =~ s{^#ifdef __cplusplus.*?#endif}{}gms;
$header =~ s{^\s*#.*$}{}gm;
$header =~ s{typedef[^;]*;}{}g;
1 while $header =~ s/\{[^{}]*\}/ /s;
my @functions = $header =~ /([a-z][\w \*]*?\brille_\w+\([^;]*\))\s*;/gs;

# Valid arguments, by patterns of an argument's type and name and its function; the first pattern that matches is
# used.
my @sound = (
  [qr/^struct rille_session \*\*.* rille_open$/, '&fresh'],
  [qr/^struct rille_session \*\*/, '&w->s'],
  [qr/^(const )?struct rille_session \*/, 'w->s'],
  [qr/^const struct rille_options \*/, '&options'],
  [qr/^const struct rille_graph_options \*/, '&graph_options'],
  [qr/^struct rille_tensor \*const \*/, 'w->list'],
  [qr/^struct rille_tensor \*\* (t) rille_tensor_free/, '&w->spare'],
  [qr/^struct rille_tensor \*\*/, 'made'],
  [qr/^struct DLManagedTensor(Versioned)? \*\*/, '(struct DLManagedTensor$1 **)room'],
  [qr/^struct DLManagedTensor(Versioned)? \*/, '(struct DLManagedTensor$1 *)room'],
  [qr/^(const )?struct rille_tensor \*/, 'w->t'],
  [qr/^struct rille_graph \*\* g rille_graph_free/, '&w->g'],
  [qr/^struct rille_graph \*\*/, '&graph'],
  [qr/^(const )?struct rille_graph \*/, 'w->g'],
  [qr/^struct rille_live \*\* l /, '&w->live'],
  [qr/^struct rille_live \* /, 'w->live'],
  [qr/^struct rille_live \*\*/, '&live'],
  [qr/^const struct rille_place \*\*/, '&place'],
  [qr/^const struct rille_place \*const \*/, '(const struct rille_place *[]){w->place}'],
  [qr/^const struct rille_place \*/, 'w->place'],
  [qr/^const struct rille_layout \*\*/, '&layout'],
  [qr/^const struct rille_layout \*const \*/, '&w->layout'],
  [qr/^const struct rille_layout \*/, 'w->layout'],
  [qr/^const struct rille_op \*.* rille_create$/, 'rille_op_find("zeros")'],
  [qr/^const struct rille_op \*/, 'rille_op_find("relu")'],
  [qr/^const struct rille_arg \*.* rille_create$/, 'NULL'],
  [qr/^const struct rille_arg \*/, 'w->arg'],
  [qr/^const struct rille_attr \*/, 'NULL'],
  [qr/^struct rille_(file|tokens|tokenizer|trainer) \*\* [ftr] rille_\w+_(?:close|free)$/, '&w->$1'],
  [qr/^(?:const )?struct rille_(file|tokens|tokenizer|trainer) \*(?!\*)/, 'w->$1'],
  [qr/^struct rille_scan \*\* scan rille_scan_(end|cancel)/, '&w->scan'],
  [qr/^struct rille_(file|tokens|tokenizer|trainer|saving|hints|scan) \*\*/, '(struct rille_$1 **)room'],
  [qr/^const struct rille_save_options \*/, 'NULL'],
  [qr/^const struct rille_state \*/, 'NULL'],
  [qr/^const struct rille_token_rows \*/, '&rows'],
  [qr/^struct rille_explain \*\* e /, '&w->explain'],
  [qr/^struct rille_explain \*\*/, '&explain'],
  [qr/^struct rille_chart \*\* c /, '&w->chart'],
  [qr/^struct rille_chart \*\*/, '&chart'],
  [qr/^const struct rille_chart_costs \*/, 'NULL'],
  [qr/^struct rille_(\w+) \*/, '(struct rille_$1 *)room'],
  [qr/^const struct rille_cost \*/, '(const struct rille_cost *)room'],
  [qr/^struct rille_operand_info /, '(struct rille_operand_info *)room'],
  [qr/^struct rille_attr_info /, '(struct rille_attr_info *)room'],
  [qr/^rille_live_fn \*/, 'tell'],
  [qr/^void \(\* \w+ rille_file_list/, '(void (*)(void *, const char *, size_t, bool))(void (*)(void))drop'],
  [qr/^void \(\* \w+ rille_folder_list/, '(void (*)(void *, const char *))(void (*)(void))drop'],
  [qr/^void \(\*/, 'drop'],
  [qr/^const struct rille_quantisation \*/, '&(struct rille_quantisation){.method = "scaled"}'],
  [qr/^char \* text/, 'room'],
  [qr/^char out /, 'room'],
  [qr/^const char \* host/, '"127.0.0.1"'],
  [qr/^const char \*\*/, '&words'],
  [qr/^const char \*const \* sbp/, '(const char *[]){"B"}'],
  [qr/^const char \* dtype/, '"f32"'],
  [qr/^const char \* kind/, '"cpu"'],
  [qr/^const char \* (name|op) rille_op_find/, '"relu"'],
  [qr/^const char \* op /, 'NULL'],
  [qr/^const char \* path/, 'file'],
  [qr/^const char \* format/, '"npy"'],
  [qr/^const char \*\*/, '(const char **)room'],
  [qr/^uint32_t \*\*/, '(uint32_t **)room'],
  [qr/^const uint32_t \*\*/, '(const uint32_t **)room'],
  [qr/^size_t \*/, '(size_t *)room'],
  [qr/^const char \*const \* special/, 'NULL'],
  [qr/^const char \* pattern/, 'NULL'],
  [qr/^const char \*const \* name/, '(const char *[]){"x"}'],
  [qr/^const char \*const \* path/, '(const char *[]){file}'],
  [qr/^uint64_t \*/, '(uint64_t *)room'],
  [qr/^const char \*/, '"text"'],
  [qr/^char \*\* \w+ rille_key_new_ranks/, '(char **)room'],
  [qr/^char \*\*/, '&text'],
  [qr/^const int64_t \* strides/, 'NULL'],
  [qr/^const int64_t \* /, 'shape'],
  [qr/^int64_t \*/, 'shape'],
  [qr/^const int32_t \*\*/, '&ranks'],
  [qr/^const int32_t \* sizes/, 'one'],
  [qr/^const int32_t \* ranks/, 'zero'],
  [qr/^int32_t (\*|sizes)/, '(int32_t *)room'],
  [qr/^const int32_t \* pieces/, 'one'],
  [qr/^const int \* naxis/, '(int *)room'],
  [qr/^rille_hook_fn \*/, 'NULL'],
  [qr/^const struct rille_hook_user \*/, 'NULL'],
  [qr/^const struct rille_backward \*/, '&(const struct rille_backward){"f", (rille_backward_fn *)(void (*)(void))abort, NULL, NULL}'],
  [qr/^const struct rille_cluster \*/, '(const struct rille_cluster *)room'],
  [qr/^const int \*/, 'NULL'],
  [qr/^int \*/, '(int *)room'],
  [qr/^(const )?void \*/, 'room'],
  [qr/^bool \(\*/, 'NULL'],
  [qr/^double \*/, '(double *)room'],
  [qr/^bool \*/, '(bool *)room'],
  [qr/^int ndim/, '2'],
  [qr/^int nargs rille_create/, '0'],
  [qr/^int (n|nin|nout|nargs|naxis|nsaved|nresult|nstate|nslice|noutput) /, '1'],
  [qr/^(int|int64_t|uint64_t|int32_t|double|bool|size_t) /, '0'],
);

sub sound {
  my ($type, $name, $function) = @_;
  for my $row (@sound) {
    if ("$type $name $function" =~ $row->[0]) { my $found = $1 // ""; (my $value = $row->[1]) =~ s/\$1/$found/; return $value }
  }
  die "face.pl: no sound argument for '$type $name' of $function\n";
}

my (@cases, @names);
for my $text (@functions) {
  $text =~ s/\s+/ /g;
  my ($function, $list) = $text =~ /\b(rille_\w+)\((.*)\)$/;
  next if $function =~ /^rille_(error.*|calibrate|worker)$/;
  $list =~ s/\(void \*arg[^)]*\)/()/g;
  my @arguments;
  for my $argument ($list eq "void" ? () : split /, /, $list) {
    my ($type, $name) = $argument =~ /^(void|bool) \(\*/ ? ("$1 (*", "drop") : $argument =~ /^(.*?[\s\*])(\w+)(\[\w+\])?$/;
    $type =~ s/ $//;
    push @arguments, {value => sound($type, $name, $function), pointer => scalar($type =~ /\*$/ || $argument =~ /[\[(]/)};
  }
  push @names, $function;
  my $case = 0;
  my $add = sub {
    my ($kind, @values) = @_;
    push @cases, [$#names, $kind, "(void)$function(" . join(", ", @values) . ")"];
  };
  my @values = map { $_->{value} } @arguments;
  $add->("SOUND", @values);
  for my $i (0 .. $#arguments) {
    my @changed = @values;
    next unless $arguments[$i]{pointer};
    $changed[$i] = "NULL";
    $add->("NONE", @changed);
    next unless $values[$i] =~ /^w->(t|list|layout|place|arg)$/ && grep { /^w->(s|t|g|file|tokens)$/ } @values[0 .. $i - 1];
    ($changed[$i] = $values[$i]) =~ s/^w/other/;
    $add->("FOREIGN", @changed);
  }
  next unless grep { /^&?w->(s|t|g|list|live|spare|file|tokens|scan)$/ } @values;
  $add->("THREAD", @values) if $function !~ /^rille_(adopt|interrupt|doing|doing_thread|waiting_thread|status|metrics|worker_info)$/;
  $add->("CHILD", @values);
}

print <<'C';
#include <rille.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum kind { SOUND, NONE, FOREIGN, THREAD, CHILD };
static const char *const kinds[] = {"with sound arguments", "with a NULL", "with another session's handle", "from another thread", "after fork()"};

struct world {
    struct rille_session *s;
    struct rille_tensor *t, *spare, *list[2];
    struct rille_graph *g;
    struct rille_live *live;
    const struct rille_place *place;
    const struct rille_layout *layout;
    struct rille_arg arg[1];
    struct rille_explain *explain;
    struct rille_chart *chart;
    struct rille_file *file;
    struct rille_tokens *tokens;
    struct rille_tokenizer *tokenizer;
    struct rille_trainer *trainer;
    struct rille_scan *scan;
};
static const struct rille_token_rows rows = {.length = 1, .n = 1};
static char file[] = "face.npy";
static const struct rille_options options = {.devices = "cpu:2", .threads = 1};
static const struct rille_graph_options graph_options;

static int tell(void *arg, double *out) { (void)arg; *out = 1; return 0; }
static void drop(void *arg) { (void)arg; }

static void
build(struct world *w)
{
    int64_t shape[] = {2, 2};
    struct rille_tensor *piece, *result;
    memset(w, 0, sizeof *w);
    if (rille_open(&options, &w->s)) exit(99);
    rille_place(w->s, "cpu", 1, (int32_t[]){1}, (int32_t[]){0}, &w->place);
    rille_layout(w->s, w->place, 1, (const char *[]){"B"}, NULL, -1, &w->layout);
    rille_create(w->s, rille_op_find("ones"), 0, NULL, 2, shape, NULL, w->layout, &w->t);
    w->spare = rille_tensor_hold(w->t);
    w->list[0] = w->list[1] = w->t;
    w->arg[0] = (struct rille_arg){.kind = RILLE_ARG_TENSOR, .tensor = w->t};
    rille_save(w->s, "face-in.npy", 1, (const char *[]){"x"}, w->list, NULL, NULL);
    rille_file_open(w->s, "face-in.npy", NULL, &w->file);
    rille_trainer_new(NULL, 0, NULL, &w->trainer);
    rille_trainer_add(w->trainer, "to be or not to be", 18);
    rille_trainer_end(w->trainer, 260, &w->tokenizer);
    rille_tokens_of(w->s, 3, (int64_t[]){1, 2, 3}, &w->tokens);
    rille_live_new(w->s, tell, drop, NULL, &w->live);
    rille_explain(w->s, 1, w->list, &w->explain);
    rille_trace_begin(w->s, &graph_options, 1, w->list, &piece);
    rille_call(w->s, rille_op_find("relu"), 1, &(struct rille_arg){.kind = RILLE_ARG_TENSOR, .tensor = piece}, 0, NULL, &result);
    rille_trace_end(w->s, 1, &result, &w->g);
    rille_graph_chart(w->g, NULL, &w->chart);
    rille_tensor_free(&piece);
    rille_tensor_free(&result);
    rille_scan_begin(w->s, 0, 1, w->list, 0, NULL, &result, &w->scan);
}

static void
act(int n, struct world *w, struct world *other)
{
    static char room[1 << 16];
    int64_t shape[8] = {2, 2};
    int32_t one[] = {1}, zero[] = {0};
    struct rille_session *fresh;
    struct rille_tensor *made[16];
    struct rille_graph *graph;
    struct rille_live *live;
    struct rille_explain *explain;
    struct rille_chart *chart;
    const struct rille_place *place;
    const struct rille_layout *layout;
    const int32_t *ranks;
    char *text;
    const char *words;
    (void)words, (void)other, (void)room, (void)shape, (void)one, (void)zero, (void)fresh, (void)made, (void)graph, (void)live;
    (void)explain, (void)chart, (void)place, (void)layout, (void)ranks, (void)text;
    switch (n) {
C
for my $i (0 .. $#cases) { print "    case $i: $cases[$i][2]; break;\n" }
print "    }\n}\n\nstatic const struct { int function; enum kind kind; } cases[] = {\n";
print "    {$_->[0], $_->[1]},\n" for @cases;
print "};\nstatic const char *const names[] = {\n";
print "    \"$_\",\n" for @names;
print <<'C';
};

struct visit { int n; struct world *w, *other; int code; };

static void *
visit(void *arg)
{
    struct visit *v = arg;
    act(v->n, v->w, v->other);
    v->code = rille_error_code();
    return NULL;
}

/* Makes the call in a forked child. Returns 0 if the error names the fork as its cause, and the child ends. */
static int
try_child(struct visit *v)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        visit(v);
        _exit(strstr(rille_error(), "was forked from the one that opened the session") == NULL);
    }
    waitpid(child, &status, 0);
    return status != 0;
}

/* Makes the call of case n. Returns 0 if the call behaves as expected; 1 if it should be refused and is not. */
static int
try(int n)
{
    struct world w, other;
    build(&w);
    build(&other);
    struct visit v = {n, &w, &other, 0};
    pthread_t thread;
    if (cases[n].kind == CHILD) return try_child(&v);
    if (cases[n].kind == THREAD)
        pthread_create(&thread, NULL, visit, &v), pthread_join(thread, NULL);
    else
        visit(&v);
    if (cases[n].kind == THREAD) return v.code == 0;
    if (cases[n].kind == FOREIGN) return strstr(rille_error(), "another session") == NULL;
    return 0;
}

int
main(void)
{
    int failed = 0, nfunction = (int)(sizeof names / sizeof *names), ncase = (int)(sizeof cases / sizeof *cases);
    for (int f = 0; f < nfunction; f++) {
        char why[200] = "";
        int tried = 0;
        for (int n = 0; n < ncase; n++) {
            int status = 0;
            if (cases[n].function != f) continue;
            tried++;
            fflush(stdout);
            pid_t child = fork();
            if (child == 0) _exit(try(n));
            waitpid(child, &status, 0);
            if (WIFSIGNALED(status)) snprintf(why, sizeof why, "signal %d %s", WTERMSIG(status), kinds[cases[n].kind]);
            else if (WEXITSTATUS(status)) snprintf(why, sizeof why, "exit %d, %s was not refused", WEXITSTATUS(status), kinds[cases[n].kind]);
            if (why[0]) printf("# case %d of %s: %s\n", tried, names[f], why);
        }
        failed += why[0] != 0;
        printf("%sok %d - %s refuses what is wrong (%d calls)\n", why[0] ? "not " : "", f + 1, names[f], tried);
    }
    printf("1..%d\n", nfunction);
    return failed != 0;
}
C

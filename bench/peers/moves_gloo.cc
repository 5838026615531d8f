// moves_gloo.cc - the collectives of gloo over TCP on one host; a peer in bench/moves.sh, built there.
//
// moves_gloo N: starts N processes, which find each other by files in a folder. Prints "move, devices, bytes, column,
// microseconds", the least of some rounds.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using Context = std::shared_ptr<gloo::Context>;

static double
now_us()
{
    auto t = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double, std::micro>(t).count();
}

static double
least(const Context &c, size_t n, const std::function<void()> &run)
{
    int calls = n < 1 << 16 ? 50 : 1;
    double best = 1e9;
    for (int round = 0; round < 10; round++) {
        gloo::BarrierOptions barrier(c);
        gloo::barrier(barrier);
        double begin = now_us();
        for (int i = 0; i < calls; i++) run();
        best = std::min(best, (now_us() - begin) / calls);
    }
    return best;
}

static void
measure(const Context &c, int rank, int size, size_t bytes)
{
    size_t n = bytes / 4;
    std::vector<float> in(n), out(n);
    auto tell = [&](const char *what, double us) {
        if (rank == 0) printf("%s\t%d\t%zu\tgloo\t%.2f\n", what, size, bytes, us);
        fflush(stdout);
    };
    tell("all-reduce", least(c, n, [&] {
             gloo::AllreduceOptions o(c);
             o.setInput(in.data(), n);
             o.setOutput(out.data(), n);
             o.setReduceFunction([](void *a, const void *b, const void *d, size_t k) { gloo::sum<float>(a, b, d, k); });
             gloo::allreduce(o);
         }));
    if (n < size_t(size * size)) return;
    tell("all-gather", least(c, n, [&] {
             gloo::AllgatherOptions o(c);
             o.setInput(in.data(), n / size);
             o.setOutput(out.data(), n);
             gloo::allgather(o);
         }));
    tell("all-to-all", least(c, n, [&] {
             gloo::AlltoallOptions o(c);
             o.setInput(in.data(), n / size);
             o.setOutput(out.data(), n / size);
             gloo::alltoall(o);
         }));
}

static void
run_rank(const char *folder, int rank, int size)
{
    gloo::transport::tcp::attr attr;
    attr.hostname = "127.0.0.1";
    auto device = gloo::transport::tcp::CreateDevice(attr);
    auto store = gloo::rendezvous::FileStore(folder);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
    context->connectFullMesh(store, device);
    for (size_t bytes : {8, 4096, 262144, 2097152, 16777216, 67108864}) measure(context, rank, size, bytes);
    _exit(0);
}

int
main(int argc, char **argv)
{
    int size = argc > 1 ? atoi(argv[1]) : 2;
    char folder[] = "/tmp/rille-gloo-XXXXXX";
    if (!mkdtemp(folder)) return 1;
    for (int rank = 0; rank < size; rank++)
        if (fork() == 0) run_rank(folder, rank, size);
    for (int rank = 0; rank < size; rank++) wait(nullptr);
    std::string clean = std::string("rm -rf ") + folder;
    return system(clean.c_str());
}

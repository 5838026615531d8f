# Makefile - short commands for building, testing and installing; CMake does the work. Each command first installs missing
# packages, if the user may.
# SHARE: cases of exhaustive tests that run. all: every case; k/n: share k of n. Default: one share in eight, chosen by the
# hash of the commit (.ci/prove). RILLE_ALL=1: also runs tests that passed before and are unchanged. JOBS: number of
# computing tests that run at a time.

.PHONY: all run test asan tsan bench docs install clean

all:
	@.ci/install
	cmake --preset release
	cmake --build --preset release

run:
	@.ci/install
	cmake --preset release
	cmake --build --preset release --target rille
	build/release/rille examples/digits.lua

test: all
	.ci/prove build/release

asan:
	@.ci/install
	cmake --preset asan
	cmake --build --preset asan
	.ci/prove build/asan

# Tests in which threads may race: tests of actors, of streams, of clusters, and of multi-threaded kernels.
THREAD_TESTS := $(addprefix act/,alloc bus calls collect fail open pack runs sim streams) $(addprefix runtime/,stream system system_posix) \
	plan/rows-far $(addprefix cluster/,carrier hasty host link strangers) kernels/threads kernels/team kernels/fused \
	products/attention rows/rows session/adopt session/dlpack
tsan:
	@.ci/install
	cmake --preset tsan
	cmake --build --preset tsan --target rille \
	  t-act t-act-alloc t-act-calls t-act-open t-act-runs t-act-sim t-runtime \
	  t-runtime-system_posix t-plan t-cluster t-kernels t-products t-rows t-session
	OMP_NUM_THREADS=1 RILLE_THREADS=2 TSAN_OPTIONS="suppressions=$(CURDIR)/t/tsan.supp" \
		$$(setarch -R true 2>/dev/null && echo setarch -R) .ci/prove build/tsan $(THREAD_TESTS)

bench: all
	for b in $(patsubst bench/%.c,build/release/bench/%,$(wildcard bench/*.c)); do $$b || exit 1; done
	for b in $(wildcard bench/*.lua); do build/release/rille $$b || exit 1; done

docs:
	@.ci/install mkdocs
	cmake --preset release
	cmake --build --preset release --target docs

install: all
	cmake --install build/release --strip

clean:
	rm -rf build

# Makefile - the few commands one types; CMake does the work. Each installs what is missing, when it may.

# Tests wait more than they compute: one more at a time than there are cores keeps the cores busy.
JOBS ?= $(shell expr $$(nproc) + 1)
PROVE = .ci/prove -j$(JOBS)

.PHONY: all run test asan tsan bench install clean

all:
	@.ci/install
	cmake --preset release
	cmake --build --preset release

run: all
	build/release/rille examples/digits.lua

test: all
	$(PROVE) -r build/release/t

asan:
	@.ci/install
	cmake --preset asan
	cmake --build --preset asan
	$(PROVE) -r build/asan/t

# The tests whose threads may race: those of actors, of streams, of clusters, and of kernels that share their work out.
THREAD_TESTS := $(patsubst t/%.c,%,$(wildcard t/act/*.c)) runtime/stream plan/rows-far \
	$(addprefix cluster/,carrier hasty host link strangers) $(addprefix kernels/,threads team attention fused pool rows)
tsan:
	@.ci/install
	cmake --preset tsan
	cmake --build --preset tsan --target $(patsubst %,t-%,$(subst /,-,$(THREAD_TESTS)))
	OMP_NUM_THREADS=1 TSAN_OPTIONS="suppressions=$(CURDIR)/t/tsan.supp" \
		$$(setarch -R true 2>/dev/null && echo setarch -R) $(PROVE) $(THREAD_TESTS:%=build/tsan/t/%.t)

bench: all
	for b in $(patsubst bench/%.c,build/release/bench/%,$(wildcard bench/*.c)); do $$b || exit 1; done
	for b in $(wildcard bench/*.lua); do build/release/rille $$b || exit 1; done

install: all
	cmake --install build/release

clean:
	rm -rf build

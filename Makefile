# The front door. Meson and ninja do the work; `make help` lists what can be asked for.

PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60

.PHONY: all deps build-deps test-deps run check test bench fuzz soak install clean help

all: build/build.ninja
	ninja -C build

# Without cmocka there are no tests in the build; tools/test adds them once it is installed.
build/build.ninja: | build-deps
	meson setup build

deps:
	@tools/deps

build-deps:
	@tools/deps build

test-deps:
	@tools/deps test

# Compiles the program alone, so the first start does not wait for the tests.
run: build/build.ninja
	ninja -C build weir
	@tools/run

# What to run between two edits: at most 90 seconds from a warm build.
check: test-deps
	@tools/test quick

# ONLY="asan unit" narrows it down; see tools/test.
test: test-deps
	@tools/test $(ONLY)

bench: deps all
	@tools/bench

fuzz: test-deps
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tools/fuzz

# The property tests, the simulation of jobs and thousands of crashes under load, long and from a seed of the day. A
# failure prints the seed that repeats it.
soak: WEIR_SEED ?= $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
soak: WEIR_KILLS ?= 4000
soak: test-deps all
	WEIR_STEPS=50000000 WEIR_SEED=$(WEIR_SEED) meson test -C build --suite property -t 0 --verbose
	build/weir sim jobs --seed $(WEIR_SEED) --seeds 200000
	WEIR_KILLS=$(WEIR_KILLS) WEIR_SEED=$(WEIR_SEED) WEIR_PROGRAM=build/weir /usr/bin/python3 -B -m pytest -p no:cacheprovider \
	    -s --tb=native tests/system/test_jobs_kill.py tests/system/test_jobs_crash.py

install: all
	meson configure build -Dprefix=$(abspath $(PREFIX))
	meson install -C build

clean:
	rm -rf build

help:
	@echo 'make            build weir and the library'
	@echo 'make run        build and start the gateway on examples/quickstart.yaml'
	@echo 'make check      run the unit tests of one compiler, short system tests and checks'
	@echo 'make test       build every variant and run every test; ONLY="asan unit" narrows it'
	@echo 'make bench      run the benchmarks'
	@echo 'make fuzz       run every fuzz target for FUZZ_SECONDS (60)'
	@echo 'make soak       run property tests, simulated jobs and crashes for long, from WEIR_SEED (random)'
	@echo 'make deps       install the packages that tests and benchmarks need'
	@echo 'make install    install below PREFIX (/usr/local), into DESTDIR'
	@echo 'make clean      remove build/'

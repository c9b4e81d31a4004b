# Everything runs from here on a fresh Debian 12 machine: `make demo`, `make test`. See CONTRIBUTING.md.
# Each target installs what it misses first and is quick the second time.
.DEFAULT_GOAL := help
.PHONY: help setup demo test bench report costs docs soak campaign reliability fuzz mutants asan tsan format lint tidy clean release configure-release

BUILD := cmake --build --preset release --parallel 2 --target

help:
	@echo "make demo    move KV cache between two processes and verify every byte"
	@echo "make test    build and run all tests"
	@echo "make bench   benchmarks beside raw UCX"
	@echo "make report  every combination of policies: which one is fast, and what it costs"
	@echo "make costs   what B10 costs a compiler, and instructions a chunk"
	@echo "make docs    the API reference, in build/docs/html"
	@echo "make campaign SEEDS=n   random transfers under random faults in virtual time, beside v1"
	@echo "make reliability SEEDS=n   the same, and writes the figures into docs/reliability.md"
	@echo "make soak    kill and stop senders at random, count wrong bytes"
	@echo "make fuzz SECONDS=n   search for bytes that make a decoder break a promise"
	@echo "make mutants  break each safety rule in turn and name the test that notices"
	@echo "make asan    tests under AddressSanitizer and UndefinedBehaviorSanitizer"
	@echo "make tsan    tests under ThreadSanitizer"
	@echo "make format  format the sources;  make tidy, make lint  check them"

setup:
	@scripts/setup.sh

configure-release: setup
	@cmake --preset release

release: configure-release
	cmake --build --preset release --parallel 2

demo: configure-release
	$(BUILD) prefill_decode
	build/release/examples/prefill_decode/prefill_decode $(ARGS)

test: setup
	@scripts/test.sh dev

asan tsan: setup
	@scripts/test.sh $@

bench: configure-release
	$(BUILD) b10_benches
	@set -e; for bench in build/release/bench/*_bench; do echo "== $$bench"; $$bench $(ARGS); done

soak: configure-release
	$(BUILD) b10_soak
	build/release/bench/b10_soak $(ARGS)

# Some ten minutes of compiling and as many of measuring, on two cores.
report: configure-release
	$(BUILD) configurations
	build/release/bench/configurations --out bench/results $(ARGS)
	python3 scripts/report.py bench/results/configurations-cpu.html bench/results/configurations-cpu.json \
	  $(if $(wildcard bench/results/compile_time.json),--compile bench/results/compile_time.json)

# The second needs valgrind.
costs: configure-release
	$(BUILD) configurations instructions
	python3 bench/compile_time.py --configurations build/release/bench/configurations --out bench/results/compile_time.json
	python3 bench/instructions/count.py build/release/bench/instructions

docs: setup
	scripts/docs.sh build/docs

campaign: setup
	cmake --preset campaign
	cmake --build --preset campaign --parallel 2 --target b10_campaign
	build/campaign/tests/sim/b10_campaign --policy all --seeds $(or $(SEEDS),25000) $(ARGS)

reliability: setup
	cmake --preset campaign
	cmake --build --preset campaign --parallel 2 --target b10_campaign
	python3 scripts/reliability.py build/campaign/tests/sim/b10_campaign $(or $(SEEDS),25000)

fuzz: setup
	@scripts/fuzz.sh $(or $(SECONDS),60)

mutants: setup
	python3 scripts/mutants.py $(ARGS)

format: setup
	scripts/format.sh

tidy: setup
	python3 scripts/tidy.py .
	scripts/format.sh --check

lint: setup
	cmake --preset dev -DCMAKE_EXPORT_COMPILE_COMMANDS=ON
	run-clang-tidy-16 -quiet -j 2 -p build/dev '/tests/[a-z_]*_test\.cpp$$'

clean:
	rm -rf build

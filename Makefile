# kvaudit - see `make help`. Objects and programs live under $(O).
O ?= build
SAN ?=
CC = gcc
V ?= 0
PREFIX ?= /usr/local
SHELL = /bin/bash

ifneq ($(SAN),)
comma := ,
B := $(O)/san-$(subst $(comma),-,$(SAN))
SANFLAGS := -fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer -DKVA_POISON
else
B := $(O)/plain
SANFLAGS :=
endif

MODULES := kva kernels methods metrics models tasks db reports runner
PKGS := sqlite3 jansson libcurl gsl libpcre2-8 libarchive libutf8proc
Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-6s %s\n' $(1) $(2))

ifeq ($(filter deps help clean,$(MAKECMDGOALS)),)
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
PKG_LIBS := $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lm -lpthread
COMMIT := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
DIRTY := $(shell git diff --quiet HEAD 2>/dev/null && echo 0 || echo 1)
endif

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wvla -Wconversion -Wno-sign-conversion \
  -Wdouble-promotion -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition \
  -Wwrite-strings -Wcast-qual -Wpointer-arith -Wundef -Wformat=2 -Wimplicit-fallthrough -fno-common
ifneq ($(WERROR),0)
WARN += -Werror
endif
OPT ?= -O2 -g
CFLAGS := -std=c11 $(OPT) -ffp-contract=off -D_GNU_SOURCE $(WARN) $(SANFLAGS) -I. $(PKG_CFLAGS)
LDFLAGS := $(SANFLAGS)

# sources of a module: every .c below it, the root's kva*.c for `kva`; main.c is not in a library
src_kva := $(wildcard kva*.c)
src_kernels := $(wildcard kernels/*.c kernels/cpu/*.c)
src_runner := $(filter-out runner/main.c,$(wildcard runner/*.c))
$(foreach m,methods metrics models tasks db reports,$(eval src_$(m) := $(wildcard $(m)/*.c)))
obj = $(patsubst %.c,$(B)/%.o,$(1))
lib = $(B)/lib$(1).a
# link order follows the include direction: users first
LIBS := $(foreach m,runner reports db tasks models metrics methods kernels kva,$(call lib,$(m)))

.PHONY: all cuda test golden bench lint format check install coverage dist clean help deps fuzz soak \
  quickstart fetch smoke simulate cuda-report cuda-tests cuda-carry
all: $(O)/kvaudit

$(O)/kvaudit: $(B)/kvaudit
	$(Q)mkdir -p $(@D) && cp -f $< $@.tmp && mv -f $@.tmp $@

$(B)/kvaudit: $(B)/runner/main.o $(LIBS)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $< $(LIBS) $(PKG_LIBS)

define LIB_RULE
$(call lib,$(1)): $(call obj,$(src_$(1)))
	$$(call say,AR,$$@)
	$$(Q)rm -f $$@ && ar rcs $$@ $$^
endef
$(foreach m,$(MODULES),$(eval $(call LIB_RULE,$(m))))

# instruction-set files say so in their name: *_avx2.c, *_avx512.c; *_scalar.c needs fmaf in hardware
$(B)/%_avx2.o: ISA := -mavx2 -mfma -mf16c -O3
$(B)/%_avx512.o: ISA := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx2 -mfma -mf16c -O3
$(B)/%_scalar.o: ISA := -mfma -mf16c -O3
$(B)/%.o: %.c
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(ISA) $(DEFS) -MMD -MP -c -o $@ $<

# ---- the device backend: C against the runtime's headers, .cu by nvcc; `make cuda` links it beside
# the objects of the program, which finds it there (kernels/cpu/ops.c) ----
CUDA ?= /usr/local/cuda
NVCC ?= $(firstword $(wildcard $(CUDA)/bin/nvcc) nvcc)
# -fmad=false: a product and a sum are one operation where the source says fmaf, nowhere else, as on
# the processor (-ffp-contract=off)
NVFLAGS := -std=c++17 -O3 -fmad=false -I. -gencode arch=compute_80,code=sm_80 \
  -gencode arch=compute_90,code=[sm_90,compute_90] -Xptxas -v,-warn-lmem-usage,-warn-spills \
  --Werror all-warnings
cuda_c := $(wildcard kernels/cuda/*.c)
cuda_cu := $(wildcard kernels/cuda/*.cu)
CUDA_OBJ := $(patsubst %.c,$(B)/%.o,$(cuda_c)) $(patsubst %.cu,$(B)/%.cu.o,$(cuda_cu))
$(B)/kernels/cuda/%_cuda.o: ISA := -isystem $(CUDA)/include
# what the compiler says of every kernel (registers, stack, spills) stays beside the object
$(B)/%.cu.o: %.cu
	$(call say,NVCC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(NVCC) $(NVFLAGS) -MMD -MP -MF $(@:.o=.d) -MT $@ -c -o $@ $< >$(@:.o=.ptxas) 2>&1 || \
	  { cat $(@:.o=.ptxas); rm -f $@; exit 1; }
cuda: $(O)/cuda/kvaudit
$(O)/cuda/kvaudit: $(B)/runner/main.o $(LIBS) $(CUDA_OBJ)
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $< $(CUDA_OBJ) $(LIBS) $(PKG_LIBS) $(CUDA_LINK)
# libraries are looked for beside the program first, where cuda-carry puts them
CUDA_LINK = -L$(CUDA)/lib64 -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/../lib:$$ORIGIN/../../../lib:$(CUDA)/lib64' \
  -lcudart_static -lcublasLt -lstdc++ -ldl -lrt

# ---- the same sources for the emulator (tests/simt), without CUDA; *_cuda.* have stand-ins there ----
SIMT_FLAGS := -DKVA_HOST_SIMT
SIMT_OPT ?= -O1 -g
SIMT_CXX := g++ -std=c++17 $(SIMT_OPT) -ffp-contract=off -Wall -Wextra -Wno-unknown-pragmas -Werror \
  -Wno-unused-function -mfma -mf16c $(SANFLAGS) -I.
SIMT_OBJ := $(patsubst %.c,$(B)/simt/%.o,$(filter-out %_cuda.c,$(cuda_c))) \
  $(patsubst %.cu,$(B)/simt/%.cu.o,$(filter-out %_cuda.cu,$(cuda_cu))) \
  $(patsubst %.cpp,$(B)/simt/%.o,$(filter-out tests/simt/test_%,$(wildcard tests/simt/*.cpp)))
$(B)/simt/%.o: %.c
	$(call say,SIMT,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(SIMT_FLAGS) -MMD -MP -c -o $@ $<
$(B)/simt/%.cu.o: %.cu
	$(call say,SIMT,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(SIMT_CXX) $(SIMT_FLAGS) -MMD -MP -x c++ -c -o $@ $<
$(B)/simt/%.o: %.cpp
	$(call say,SIMT,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(SIMT_CXX) $(SIMT_FLAGS) -MMD -MP -c -o $@ $<

# generated data: configs/data/* as C arrays is done by the assembler (.incbin), see tasks/data.c
$(B)/tasks/data.o: $(wildcard configs/data/*)
$(B)/db/db.o: $(wildcard db/*.sql)
$(B)/reports/html.o: $(wildcard reports/templates/*)
$(B)/runner/registry_models.o: configs/models.json
$(B)/reports/published.o: $(wildcard configs/published*.csv)
# the commit is part of the program: version.o follows it
$(B)/commit.stamp: FORCE
	$(Q)mkdir -p $(@D) && echo '$(COMMIT) $(DIRTY)' | cmp -s - $@ || echo '$(COMMIT) $(DIRTY)' > $@
$(B)/runner/version.o: $(B)/commit.stamp
.PHONY: FORCE
FORCE:
$(B)/runner/version.o: DEFS = -DKVA_COMMIT='"$(COMMIT)"' -DKVA_DIRTY=$(DIRTY) \
  -DKVA_CFLAGS='"$(strip $(OPT) $(SANFLAGS))"'

# ---- tests: one program per tests/<module>/test_*.c, linked with that module and below ----
TESTS := $(wildcard tests/*/test_*.c)
TEST_BINS := $(patsubst %.c,$(B)/%,$(TESTS))
libs_from = $(foreach m,$(1),$(call lib,$(m)))
below_kva := kva
below_kernels := kernels kva
below_methods := methods kernels kva
below_metrics := metrics kva
below_models := models methods kernels kva
below_tasks := tasks metrics kva
below_db := db kva
below_reports := reports db metrics kva
below_runner := runner reports db tasks models metrics methods kernels kva
below_oracle := $(below_runner)
below_oom := $(below_runner)
below_fuzz := $(below_runner)

define TEST_RULE
$(B)/tests/$(1)/%: tests/$(1)/%.c $(call libs_from,$(below_$(1))) $(wildcard tests/$(1)/*.h)
	$$(call say,TEST,$$@)
	$$(Q)mkdir -p $$(@D)
	$$(Q)$(CC) $(CFLAGS) -Wno-missing-prototypes $(LDFLAGS) -o $$@ $$< \
	  $(call libs_from,$(below_$(1))) $(PKG_LIBS) -lcmocka
endef
$(foreach m,$(MODULES) oracle oom fuzz,$(eval $(call TEST_RULE,$(m))))

# the runner with lies planted in it (runner/cheats.h), for tests/cheats alone
CHEATS := $(patsubst %.c,$(B)/cheats/%.o,$(filter-out runner/version.c,$(src_runner)))
$(B)/cheats/%.o: DEFS := -DKVA_TEST_CHEATS
$(B)/cheats/%.o: %.c
	$(call say,CHEAT,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(DEFS) -MMD -MP -c -o $@ $<
$(B)/cheats/runner/registry_models.o: configs/models.json
$(B)/tests/cheats/%: tests/cheats/%.c $(CHEATS) $(LIBS)
	$(call say,TEST,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -DKVA_TEST_CHEATS -Wno-missing-prototypes $(LDFLAGS) -o $@ $< \
	  $(CHEATS) $(LIBS) $(PKG_LIBS) -lcmocka

# those of a device, which is emulated
$(B)/tests/cheats/test_device_cheats: tests/cheats/test_device_cheats.c $(CHEATS) $(SIMT_OBJ) $(LIBS)
	$(call say,TEST,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -DKVA_HOST_SIMT -DKVA_TEST_CHEATS -Wno-missing-prototypes $(LDFLAGS) -o $@ $< \
	  $(CHEATS) $(SIMT_OBJ) $(LIBS) $(PKG_LIBS) -lcmocka -lstdc++

.SECONDARY: $(CUDA_OBJ) $(SIMT_OBJ) $(CHEATS)
# emulated kernels: tests/simt/test_*.cpp with all of the backend and the program's libraries
SIMT_TESTS := $(patsubst %.cpp,$(B)/%,$(wildcard tests/simt/test_*.cpp))
$(B)/tests/simt/%: tests/simt/%.cpp $(SIMT_OBJ) $(LIBS) $(wildcard tests/simt/*.h kernels/cuda/*.h)
	$(call say,TEST,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(SIMT_CXX) $(SIMT_FLAGS) -o $@ $< $(SIMT_OBJ) $(LIBS) $(PKG_LIBS)

# in C: the whole path, with cmocka; and the program itself, its device emulated
$(B)/tests/simt/%: tests/simt/%.c $(SIMT_OBJ) $(LIBS) $(wildcard tests/simt/*.h)
	$(call say,TEST,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -DKVA_HOST_SIMT -Wno-missing-prototypes $(LDFLAGS) -o $@ $< $(SIMT_OBJ) \
	  $(LIBS) $(PKG_LIBS) -lcmocka -lstdc++
$(B)/simt/kvaudit: $(B)/runner/main.o $(SIMT_OBJ) $(LIBS)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) -o $@ $< $(SIMT_OBJ) $(LIBS) $(PKG_LIBS) -lstdc++

# rt_cuda.c and lt_cuda.c themselves, with the emulator's kernels, against a stand-in for the toolkit's
# libraries that is compiled with the toolkit's headers; without these each program says so and skips
CUDART_TESTS := $(patsubst %.cpp,$(B)/%,$(wildcard tests/cudart/test_*.cpp))
CUDART_OBJ := $(filter-out %/rt_host.o %/lt_host.o,$(SIMT_OBJ)) $(B)/kernels/cuda/rt_cuda.o $(B)/kernels/cuda/lt_cuda.o \
  $(patsubst %.cpp,$(B)/simt/%.o,$(filter-out tests/cudart/test_%,$(wildcard tests/cudart/*.cpp)))
.SECONDARY: $(CUDART_OBJ)
$(B)/simt/tests/cudart/%.o: SIMT_FLAGS += -isystem $(CUDA)/include
ifneq ($(wildcard $(CUDA)/include/cublasLt.h),)
$(B)/tests/cudart/%: tests/cudart/%.cpp $(CUDART_OBJ) $(LIBS) $(wildcard tests/simt/*.h tests/cudart/*.h kernels/cuda/*.h)
	$(call say,TEST,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(SIMT_CXX) $(SIMT_FLAGS) -o $@ $< $(CUDART_OBJ) $(LIBS) $(PKG_LIBS)
$(B)/tests/cudart/%: tests/cudart/%.c $(CUDART_OBJ) $(LIBS) $(wildcard tests/simt/*.[ch] tests/cudart/*.h)
	$(call say,TEST,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -DKVA_HOST_SIMT -Wno-missing-prototypes $(LDFLAGS) -o $@ $< $(CUDART_OBJ) \
	  $(LIBS) $(PKG_LIBS) -lcmocka -lstdc++
else
$(B)/tests/cudart/%: tests/cudart/absent.c
	$(call say,TEST,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -o $@ $<
endif

T ?= default
# what T=fast does not run it need not build
TEST_NOW := $(if $(filter fast,$(T)),$(filter-out $(B)/tests/oracle/% $(B)/tests/cheats/% %_slow,$(TEST_BINS)),$(TEST_BINS))
test: $(O)/kvaudit $(TEST_NOW) $(SIMT_TESTS) $(CUDART_TESTS) $(B)/simt/kvaudit $(B)/tests/device/synthetic
	$(Q)B=$(B) KVAUDIT=$(B)/kvaudit tests/run.sh $(T)

-include $(shell find $(B) -name '*.d' 2>/dev/null)

golden: $(TEST_BINS)
	$(Q)KVA_GOLDEN=1 B=$(B) KVAUDIT=$(B)/kvaudit tests/run.sh fast; git --no-pager diff --stat tests/golden

# ---- fuzz: the corpus programs, each for FUZZ_SECONDS (60); make fuzz SAN=address,undefined
FUZZ_BINS := $(filter $(B)/tests/fuzz/%,$(TEST_BINS))
fuzz: $(FUZZ_BINS)
	$(Q)for t in $(FUZZ_BINS); do FUZZ_SECONDS=$${FUZZ_SECONDS:-60} $$t || exit 1; done

# the emulator's programs under seeds that `make test` never takes: make soak SOAK=20
SOAK ?= 20
soak: $(SIMT_TESTS) $(CUDART_TESTS)
	$(Q)for t in $(filter-out %_engine %_engine_slow,$(SIMT_TESTS) $(CUDART_TESTS)); do \
	  for n in $$(seq $(SOAK)); do KVA_SEED=fresh $$t >$(O)/soak.txt 2>&1 || { cat $(O)/soak.txt; exit 1; }; done; \
	  echo "$$t: $(SOAK) seeds passed"; done

lint: $(LIBS)
	$(Q)B=$(B) tests/lint.sh

format:
	$(Q)git ls-files '*.c' '*.h' | xargs clang-format -i

check: lint test
	$(Q)$(MAKE) test T=fast SAN=address,undefined

# ---- a machine with a GPU (tests/device/README.md); the programs run on the processor, too ---------
$(B)/tests/device/%: tests/device/%.c $(LIBS)
	$(call say,DEVICE,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $< $(LIBS) $(PKG_LIBS)
$(O)/cuda/tests/device/%: tests/device/%.c $(CUDA_OBJ) $(LIBS)
	$(call say,DEVICE,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -DKVA_CUDA -isystem $(CUDA)/include $(LDFLAGS) -o $@ $< $(CUDA_OBJ) $(LIBS) \
	  $(PKG_LIBS) $(CUDA_LINK)
# the emulator's parity programs on the real runtime; not those that ask the emulator itself
CUDA_TESTS := $(patsubst %.cpp,$(O)/cuda/%,$(filter-out %/test_simt.cpp %/test_store.cpp, \
  $(wildcard tests/simt/test_*.cpp))) \
  $(O)/cuda/tests/device/yardstick $(O)/cuda/tests/device/synthetic
$(O)/cuda/tests/simt/%: tests/simt/%.cpp tests/device/managed.cpp $(CUDA_OBJ) $(LIBS) $(wildcard tests/simt/*.h)
	$(call say,DEVICE,$@)
	$(Q)mkdir -p $(@D)
	$(Q)g++ -std=c++17 -O1 -g -Wall -Wextra -Werror -Wno-unknown-pragmas -I. -isystem $(CUDA)/include -mfma -mf16c \
	  -Wl,--wrap=main -o $@ $< tests/device/managed.cpp $(CUDA_OBJ) $(LIBS) $(PKG_LIBS) $(CUDA_LINK)
cuda-tests: $(O)/cuda/kvaudit $(CUDA_TESTS)
cuda-carry: cuda-tests
	$(Q)tests/device/carry.sh $(O)/cuda $(O)/carry

# ---- device kernels: registers, spills, occupancy by the compiler, times by the roofline ---------
cuda-report:
	$(Q)python3 tests/device/report.py --keep $(O)/cuda/report --roofline kernels/cuda/roofline.tsv \
	  $(wildcard kernels/cuda/*.cu)

# ---- benchmarks: never timed tests, a table; PEERS=1 measures the peers in the same run ----
$(B)/tests/bench/%: tests/bench/%.c $(LIBS)
	$(call say,BENCH,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -Wno-missing-prototypes -o $@ $< $(LIBS) $(PKG_LIBS)

BENCHES := $(patsubst %.c,$(B)/%,$(wildcard tests/bench/bench_*.c))
PEERS ?= 0
bench: $(O)/kvaudit $(BENCHES)
	$(Q)B=$(B) KVAUDIT=$(O)/kvaudit PEERS=$(PEERS) tests/bench/run.sh

# ---- simulations: committed tables that say what intervals and gates do on known data -----------
SIMS := $(patsubst %.c,$(B)/%,$(wildcard tests/sim/*.c))
$(B)/tests/sim/%: tests/sim/%.c $(LIBS) $(wildcard tests/sim/*.h)
	$(call say,SIM,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -Wno-missing-prototypes -o $@ $< $(LIBS) $(PKG_LIBS)
simulate: $(SIMS)
	$(Q)$(B)/tests/sim/coverage > $(B)/coverage.md && mv $(B)/coverage.md metrics/coverage.md
	$(Q)$(B)/tests/sim/nights > $(B)/nights.md && mv $(B)/nights.md reports/nights.md

# ---- the two commands --------------------------------------------------------------------------
deps:
	$(Q).ci/deps.sh

# deps first, in a make of its own: pkg-config may be among what it installs
quickstart: deps
	$(Q)$(MAKE) --no-print-directory -j2 all
	$(Q)configs/quickstart.sh $(O)/kvaudit $(O)/quickstart

smoke: deps
	$(Q)$(MAKE) --no-print-directory -j2 all
	$(Q)$(O)/kvaudit run configs/smoke.json --db $(O)/smoke.db && $(O)/kvaudit report --db $(O)/smoke.db

install: $(O)/kvaudit
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1 \
	  $(DESTDIR)$(PREFIX)/share/bash-completion/completions $(DESTDIR)$(PREFIX)/share/kvaudit
	install -m 755 $(O)/kvaudit $(DESTDIR)$(PREFIX)/bin/kvaudit
	$(O)/kvaudit help-man > $(DESTDIR)$(PREFIX)/share/man/man1/kvaudit.1
	$(O)/kvaudit help-completion > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/kvaudit
	install -m 644 configs/*.json $(DESTDIR)$(PREFIX)/share/kvaudit/

coverage:
	$(Q)$(MAKE) test T=fast O=$(O)/cov OPT="-O0 -g --coverage" LDFLAGS="--coverage"
	$(Q)for m in $(MODULES); do printf '%-9s ' $$m; \
	  find $(O)/cov -path "*plain/$$m*" -name '*.gcda' | xargs -r gcov -n 2>/dev/null | \
	  awk -F'[:% ]+' '/^Lines executed/ {p += $$3 * $$5; n += $$5} END {printf "%.1f %% of %d lines\n", n ? p / n : 0, n}'; done

dist:
	git archive --prefix=kvaudit/ -o kvaudit.tar.gz HEAD

clean:
	rm -rf $(O)

help:
	@echo "make               the program, build/kvaudit"
	@echo "make quickstart    packages, build, model file, a real leaderboard (minutes)"
	@echo "make deps          install what is missing with the system's package manager"
	@echo "make cuda          build/cuda/kvaudit: the program with the CUDA backend (nvcc; CUDA=DIR)"
	@echo "make test          all tests; T=fast, T=slow, T=all or a path pattern; SAN=address,undefined"
	@echo "make golden        rewrite expected files; review the diff like code"
	@echo "make bench         speed and memory table; PEERS=1 measures the peers beside it"
	@echo "make lint, format  include direction, symbols, banned calls, formatting; rewrite"
	@echo "make check         lint, test, fast tests under sanitizers"
	@echo "make simulate      rewrite the tables of simulated intervals and nights"
	@echo "make cuda-carry    build/carry.tar.xz: all that tests/device/run.sh needs on a machine with a GPU"
	@echo "make cuda-report   registers, spills, occupancy of the device kernels; times by the roofline"
	@echo "make fuzz          stored and random inputs, FUZZ_SECONDS=60 each; SAN=address,undefined"
	@echo "make soak          the emulator's programs under SOAK=20 fresh seeds each"
	@echo "make install       PREFIX, DESTDIR: program, manual page, completion, configs"
	@echo "make coverage, dist, clean"
	@echo "O=DIR object directory, V=1 show commands"

# make          builds ./vram and prints the estimate of a ResNet-50 training step
# make test     everything that guards a change; ends with `N passed, N failed`
# make help     the rest
CFLAGS ?= -O2
# one more than there are processors: some parts of the tests wait
JOBS ?= $(shell expr 1 + $$(nproc 2>/dev/null || echo 2))
TRUTH ?= ../shared/data/truth

all: vram
	./vram estimate examples/models/resnet50.vram --train adamw

# what is done, briefly; make V=1: the commands, make -s: nothing
Q = $(if $(V),,@)
SAY = @$(if $(V)$(findstring s,$(filter-out --%,$(firstword -$(MAKEFLAGS)))),:,echo)

# the manual pages of the commands are their help texts, read out of the sources: for another machine, too
HELPED = $(shell sed -n 's/^cmd_text help_\([a-z]*\) = {$$/\1/p' tools/vram_*.c)
HELP_PAGES = $(HELPED:%=build/man/vram-%.1) build/man/vram-parallel.7
HELP_OF = $(CC) $(CPPFLAGS) -E -P -DVRAM_H_INCLUDED $(1) | awk -v name=help_$(2) -f tools/install/help.awk
PAGE_OF = mkdir -p build/man && $(call HELP_OF,tools/vram.c,main) >$@.main && $(call HELP_OF,$(1),$(2)) >$@.help && \
  awk -v name=$(2) -v date="$$(sed -n 's/^\.Dd //p' tools/install/vram.1)" -f tools/install/man.awk $@.main $@.help >$@.new && \
  rm $@.main $@.help && mv $@.new $@
PAGE_SOURCES = tools/vram.c $(wildcard tools/vram_*.h tools/install/*.awk) tools/install/vram.1
build/man/vram-%.1: tools/vram_%.c $(PAGE_SOURCES)
	$(SAY) "  $@"
	$(Q)$(call PAGE_OF,$<,$*)
build/man/vram-parallel.7: $(PAGE_SOURCES)
	$(SAY) "  $@"
	$(Q)$(call PAGE_OF,tools/vram.c,parallel)

# the command: its units and the library, tools/vram_impl.c
LIBDL = $(if $(filter Linux,$(shell uname -s)),-ldl) -lpthread
PRELOAD = $(if $(filter Linux,$(shell uname -s)),libvram_preload.so)
TOOL = $(patsubst tools/%.c,%,$(wildcard tools/vram*.c))
TOOL_HEADERS = $(wildcard tools/vram_*.h) vram.h
LIBRARY = build/tool/vram_impl.o build/tool/library.o
# for tests, which have gcc warn as it optimises: no less than tests/warnings
STRICT = $(filter part-%,$(MAKECMDGOALS))
WARN = $$(cat tests/warnings) -Wno-misleading-indentation -Wstrict-prototypes -Wmissing-prototypes
TOOL_FLAGS = $(CC) -std=c99 -Wall -Wextra $(CPPFLAGS) $(CFLAGS)
vram: $(TOOL:%=build/tool/%.o) | $(PRELOAD) libvram.a $(HELP_PAGES)
	$(SAY) "  $@"
	$(Q)$(TOOL_FLAGS) $(LDFLAGS) -o $@ $(TOOL:%=build/tool/%.o) $(LIBDL)
build/tool/%.o: tools/%.c build/tool/flags
	$(SAY) "  $<"
	$(Q)$(TOOL_FLAGS) -fPIC $(if $(filter $@,$(LIBRARY)),,-fvisibility=hidden) $(if $(filter vram_impl,$*),$(if $(STRICT),$(WARN))) -Ibuild -c $< -o $@
$(patsubst %,build/tool/%.o,$(filter-out vram_impl,$(TOOL))): $(TOOL_HEADERS)
build/tool/vram_impl.o: vram.h
build/tool/vram_names.o: build/models.h
$(patsubst tools/%.c,build/tool/%.o,$(wildcard tools/vram_run*.c)): tools/preload.h vram_cuda.h
# other flags: all of it anew; but what was built with them is installed as it is
build/tool/flags: $(if $(and $(filter install,$(MAKECMDGOALS)),$(wildcard vram)),,FORCE)
	@mkdir -p build/tool
	@echo '$(subst ','"'"',$(TOOL_FLAGS))' | cmp -s - $@ || echo '$(subst ','"'"',$(TOOL_FLAGS))' >$@

# the Python package: its files, the library that it calls, the tools for PyTorch; pyproject.toml's backend packs it
PYTHON_LIBRARY = build/package/vram/libvram_command.so
python: $(PYTHON_LIBRARY) | $(PRELOAD)
	$(Q)rm -f build/package/vram/*.py && cp $(wildcard tools/python/vram/*.py) tools/python/vram/py.typed $(PRELOAD) build/package/vram
	$(Q)echo '__version__ = "$(VERSION)"' >build/package/vram/_version.py
	$(Q)rm -rf build/package/vram/torch_tools && mkdir build/package/vram/torch_tools && cp $(PYTHON_FILES) build/package/vram/torch_tools
# build/wheel: a wheel for this kind of machine, and the sources
wheel:
	@$(or $(PYTHON),python3) tools/python/backend.py build/wheel
$(PYTHON_LIBRARY): tools/python/guest.c $(TOOL:%=build/tool/%.o)
	@mkdir -p $(@D)
	$(SAY) "  $@"
	$(Q)$(TOOL_FLAGS) -fPIC -fvisibility=hidden -shared $(LDFLAGS) -o $@ $< $(TOOL:%=build/tool/%.o) $(LIBDL)

# vram.h and vram_cuda.h for programs, and libraries, that do not make the implementation themselves
libvram.a: $(LIBRARY)
	$(SAY) "  $@"
	$(Q)rm -f $@ && $(AR) rc $@ $^
build/tool/library.o: vram.h vram_cuda.h

# at least -O2: dlsym has to be jumped to; all that it needs is the C library, found when it is
# loaded: to find a function at its first call takes more stack than a handler of signals may have;
# of vram.h it has what is called, or it would need more of the C library
PRELOAD_C = $(wildcard tools/preload*.c)
libvram_preload.so: $(PRELOAD_C) $(wildcard tools/preload*.h) vram.h vram_cuda.h
	$(SAY) "  $@"
	$(Q)$(CC) -std=c99 -Wall -Wextra $(CPPFLAGS) $(filter-out -O%,$(CFLAGS)) -O2 -fPIC -shared \
	  -fvisibility=hidden -fexceptions -ftls-model=initial-exec -ffunction-sections -fdata-sections \
	  -Wl,--gc-sections,-z,now $(LDFLAGS) -o $@ $(PRELOAD_C) $(LIBDL)

# the command as WebAssembly: a page that needs no network, and a module for node and browsers
WASM_CC = clang
WASM_LD = wasm-ld
WASM_O = -O2
WEB = build/web
WASM_FLAGS = -target wasm32 -nostdlibinc -mbulk-memory -Itools/web/libc -Ibuild -std=c99 $(WASM_O)
WASM_OBJECTS = $(TOOL:%=$(WEB)/%.o) $(WEB)/libc.o $(WEB)/print.o
web: $(WEB)/vram.html
$(WEB)/vram.html: $(WEB)/vram.wasm tools/web/build.sh tools/web/vram.mjs tools/web/vram.d.mts \
  $(wildcard tools/web/page.*) $(MODELS:%=examples/models/%.vram)
	@sh tools/web/build.sh $< $(@D)
	$(SAY) "  $@, $(@D)/vram.mjs, $(@D)/vram.d.mts"
$(WEB)/vram.wasm: $(WASM_OBJECTS)
	$(Q)$(WASM_LD) --no-entry --stack-first -z stack-size=4194304 --gc-sections -O2 --strip-all \
	  --export=__heap_base --export=__global_base -o $@ $^
$(WEB)/%.o: tools/%.c
	$(SAY) "  $< for the web"
	@mkdir -p $(@D)
	$(Q)$(WASM_CC) $(WASM_FLAGS) -c $< -o $@
$(WEB)/%.o: tools/web/%.c
	@mkdir -p $(@D)
	$(Q)$(WASM_CC) $(WASM_FLAGS) -fno-builtin -Wall -Wextra -Wconversion -c $< -o $@
$(WASM_OBJECTS): $(wildcard tools/web/libc/*.h)
$(patsubst %,$(WEB)/%.o,$(filter-out vram_impl,$(TOOL))): $(TOOL_HEADERS)
$(WEB)/vram_impl.o: vram.h
$(WEB)/vram_names.o: build/models.h
$(patsubst tools/%.c,$(WEB)/%.o,$(wildcard tools/vram_run*.c)): tools/preload.h vram_cuda.h

# the library is made from its parts: edit those; several makes at a time may find it older
PACK = mkdir -p build; new=build/$(@F).$$$$; sh src/pack.sh $(1) >$$new && mv $$new $@
vram.h: src/parts src/pack.sh $(filter-out src/cuda/%,$(wildcard src/*/*.[ch])) src/api/op_list.h
	$(SAY) "  $@"
	@$(call PACK,parts)
vram_cuda.h: src/parts_cuda src/pack.sh $(wildcard src/cuda/*)
	$(SAY) "  $@"
	@$(call PACK,parts_cuda)
src/api/op_list.h: src/parts src/pack.sh $(wildcard src/ops/*.c)
	@mkdir -p build; new=build/$(@F).$$$$; sh src/pack.sh ops >$$new && if cmp -s $$new $@; then rm $$new; else mv $$new $@; fi

# the built-in models: examples/models as arrays of lines
MODELS = $(patsubst examples/models/%.vram,%,$(sort $(wildcard examples/models/*.vram)))
build/models.h: $(MODELS:%=examples/models/%.vram) Makefile
	@mkdir -p build
	@{ for m in $(MODELS); do \
	  echo "static const char *const model_$$m[] = {"; \
	  sed 's/[\\"]/\\&/g; s/.*/"&\\n",/' examples/models/$$m.vram; \
	  echo "NULL};"; \
	done; \
	echo "static const struct {const char *name; const char *const *line;} model_table[] = {"; \
	for m in $(MODELS); do echo "{\"$$m\", model_$$m},"; done; \
	echo "};"; } >$@.new
	@mv $@.new $@

help:
	@echo "make           build ./vram (needs a C99 compiler, nothing else) and estimate ResNet-50"
	@echo "make check     the library's tests with one compiler (about a minute)"
	@echo "make test      what CI runs: compilers, standards, sanitizers, analysis, fuzzing (minutes)"
	@echo "make test-all  the same with everything that is installed, longer fuzzing"
	@echo "make truth     the table of measured and predicted bytes (TRUTH=$(TRUTH))"
	@echo "make net-report NET=FILE.h [NAME=NET]   a network's table from the compiler's constants"
	@echo "make bench     speed and size (PYTHON=...: a Python with torch; PEERS=...: other libraries, to compare)"
	@echo "make pictures  the pictures of README.md and docs"
	@echo "make tour.svg  the one that moves (Python; fetches termtosvg)"
	@echo "make coverage  lines and branches of vram.h that the tests reach"
	@echo "make format    clang-format everything"
	@echo "make web       build/web/vram.html, a page that needs no network, and build/web/vram.mjs, a module"
	@echo "make install   headers, library, command, exporter, manual pages, documents, completion (PREFIX=$(PREFIX) DESTDIR=$(DESTDIR))"
	@echo "make uninstall the same files go"
	@echo "make python    build/package: the Python package vram, for PYTHONPATH (pip install . has it, too)"
	@echo "make wheel     build/wheel: the same as a wheel for this kind of machine, and its sources"
	@echo "make dist      vram-$(VERSION).tar.gz of the last commit, the same bytes each time"
	@echo "make deb       packages of Debian, in build/deb (make deb-source: what dpkg-buildpackage takes)"
	@echo "make golden OP=FAMILY/NAME   the streams of a case, measured by PyTorch"
	@echo "make known     take the rows that agree now out of tests/golden/known.txt"
	@echo "make errors    write the messages of now into tests/errors.txt (look at the difference)"
	@echo "make clean"

# ---- tests: parts that run side by side, each leaves build/part/NAME.log with a last line of counts

CHECK = units text explain rooms addop
# the longest first, so that none is left alone at the end
TEST = sanitized static cuda units-msan units-clang-sanitize install compile units-powerpc fuzz link emit units-i686 web examples docs $(CHECK) \
  python pool watch ledger writer schedule nets files plan advise arena render embedded pipeline finetune parallel truth models measure export fit \
  replay diff lines tiny preload
# what a part of TEST proves, too, with other tools, at a hundredth of the speed, on one machine more; what only counts
TEST_ALL = $(TEST) units-clang units-gcc-sanitize units-valgrind units-s390x coverage

check:
	@+$(MAKE) -s --no-print-directory -j$(JOBS) $(CHECK:%=part-%)
	@sh tests/sum.sh $(CHECK)
test:
	@+$(MAKE) -s --no-print-directory -j$(JOBS) $(TEST:%=part-%)
	@sh tests/sum.sh $(TEST)
test-all:
	@+$(MAKE) -s --no-print-directory -j$(JOBS) FUZZ_SECONDS=300 LONG=1 $(TEST_ALL:%=part-%)
	@sh tests/sum.sh $(TEST_ALL)

FUZZ_SECONDS ?= 2
export FUZZ_SECONDS LONG

# the library of the plain build: that of ./vram, which is built anyway; the other builds, i686 with as many
# tests, have one that checks its own results (tests/impl.c), in test-all this one, too
IMPL_plain = $(if $(LONG),build/plain/impl.o,build/tool/vram_impl.o)
IMPL = $(if $(filter build/plain:-O2,$(B):$(UFLAGS)),$(IMPL_plain),$(B)/impl.o)

$(TEST_ALL:%=part-%): vram
part-fuzz part-units-clang-sanitize: part-sanitized
# several parts use programs of the plain build: made once, before they begin
part-units part-nets part-pool part-schedule part-writer: $(IMPL_plain) $(addprefix build/plain/,test_pool test_pool_calls test_report test_schedule)
part-%:
	@mkdir -p build/part
	@start=$$(date +%s); MAKE="$(MAKE)" sh tests/part.sh $* >build/part/$*.log 2>&1; \
	echo "$$(tail -n 1 build/part/$*.log) ($$(($$(date +%s) - start)) s)"

# One build of the test programs: make units B=DIR UCC=COMPILER UFLAGS=... RUN=PREFIX
# the command's words are the same on every machine: no emulator reads them; the tables that test_recipes reads
# are the same under sanitizers, too
UNITS = $(filter-out $(if $(EMULATED),test_tool) $(if $(SLOW),test_recipes),$(patsubst tests/%.c,%,$(wildcard tests/test_*.c)))
CASES = $(wildcard tests/cases/*/*.csv)
B = build/plain
UCC = $(CC)
UFLAGS = -O2
RUN =
UNIT_WARN = -std=c99 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror
ARGS_test_graph = tests/errors.txt
MEMORY = golden/models/nn_lenet5 golden/ops/attention_by_hand golden/ops/mha_block golden/ops/einsum \
  golden/ops/split cases/checkpoint/checkpoint_tied cases/checkpoint/checkpoint_transformer_re cases/composite/every_owner
ARGS_test_memory = $(MEMORY:%=tests/%.vram)
ARGS_test_limits = $(MEMORY:%=tests/%.vram)
# a graph that its own input holds stays, in PyTorch as here: no step ends as it began
ARGS_test_property = $(filter-out %/holds_itself.vram,$(wildcard tests/golden/ops/*.vram tests/golden/random/*.vram tests/golden/models/*.vram tests/cases/*/*.vram))
ARGS_test_ledger = $(MEMORY:%=tests/%.vram) tests/golden/models/tv_resnet18.vram
ARGS_test_writer = $(MEMORY:%=tests/%.vram) tests/golden/models/tv_resnet18.vram tests/golden/models/nn_lstm2.vram tests/cases/composite/zero_axes.vram
ARGS_test_lower = $(wildcard tests/golden/ops/*.vram tests/embedded/*.vram tests/cases/recurrent/lstm*.vram tests/cases/resample/pad*.vram) \
  $(patsubst %,tests/golden/models/%.vram,nn_lenet5 nn_lstm2 nn_unet tv_mobilenet_v2 timm_mixer_b16_224.eval)
ARGS_test_optimizer = tests/golden/optimizers.txt tests/golden/optimizer_steps.txt
# every file that ggml was asked about, where they are
ARGS_test_read = $(wildcard $(TRUTH)/gguf/formats)
ARGS_test_solve = $(patsubst %,tests/golden/models/%.vram,nn_lenet5 hf_gpt2 hf_t5_small nn_lstm2)
ARGS_test_schedule = $(addprefix tests/golden/checkpoint/,rotor_exhaustive_small.txt revolve_binomial.csv)
ARGS_test_chain = $(patsubst %,tests/golden/models/%.vram,nn_lenet5 nn_mlp_dropout tv_resnet18)
ARGS_test_step = tests/golden $(CASES)
ARGS_test_refusals = tests/golden/refusals.txt
ARGS_test_llama = tests/golden/llama.txt tests/golden/llama_foreign.txt tests/golden/llama_more.txt tests/golden/llama_states.txt
ARGS_test_tflite = $(wildcard tests/golden/tflite/*.tflite) $(patsubst %,tests/golden/executorch/%.pte,none-naive methods)
ARGS_test_generation = tests/golden/generate.txt
ARGS_test_serve = tests/golden/serve_vllm.txt
ARGS_test_message = tests/golden/messages.txt
ARGS_test_pool = $(wildcard tests/golden/allocator/*.txt)
# where every access costs more (emulators, sanitizers): all goldens (test_step), and of what takes longest a part
ifdef SLOW
ARGS_test_property = $(wildcard tests/golden/ops/*.vram)
ARGS_test_solve = tests/golden/models/nn_lenet5.vram
ARGS_test_chain = $(patsubst %,tests/golden/models/%.vram,nn_lenet5 nn_mlp_dropout)
endif
# sanitizers look at every step of what they run; another machine's order of bytes shows in the smaller of them
ifdef EMULATED
ARGS_test_memory = $(patsubst %,tests/%.vram,$(filter %_lenet5 %_by_hand %/einsum %_tied,$(MEMORY)))
ARGS_test_chain = tests/golden/models/nn_mlp_dropout.vram
endif

units: $(UNITS:%=$(B)/%.log)
$(B)/impl.o: tests/impl.c tests/hurry.sed vram.h
	@mkdir -p $(B)
	@$(if $(HURRY),sed -f tests/hurry.sed vram.h >$(B)/vram.h)
	@$(UCC) -std=c99 $(WARN) $(UFLAGS) $(if $(HURRY),-DVRAM_TEST_HURRIED='"$(abspath $(B)/vram.h)"') -c tests/impl.c -o $@
$(UNITS:%=$(B)/%): $(B)/%: tests/%.c tests/test.h tests/heap.h tests/play.h tests/property.h tests/pool.h tests/pool_calls.h tests/schedule.h $(IMPL)
	@mkdir -p $(B)
	@$(UCC) $(UNIT_WARN) $(UFLAGS) $(if $(HURRY),-O0) $(FLAGS_$*) $< $(IMPL) -o $@ $(LIBS_$*)
$(B)/test_runner: tests/moves.h
$(B)/test_onnx: tests/golden/onnx_small.inc
$(B)/test_hf: tests/golden/safetensors.inc tests/golden/hf_config.inc tests/golden/hf_states.inc tests/golden/hf_text.inc tests/golden/diffusers_text.inc
$(B)/test_read: tests/golden/gguf.inc
$(B)/test_report: tests/scene.h tests/pool.h tests/golden/report.inc
# the command with memory and files that fail when the test says so
TOOL_TESTED = $(patsubst %,$(B)/tool/%.o,$(filter-out vram_impl,$(TOOL)))
$(TOOL_TESTED): $(B)/tool/%.o: tools/%.c tests/tool.h $(TOOL_HEADERS) tools/preload.h vram_cuda.h build/models.h
	@mkdir -p $(B)/tool
	@$(UCC) $(UNIT_WARN) $(UFLAGS) -O0 -Ibuild -include tests/tool.h -c $< -o $@
$(B)/test_tool: tests/tool.h build/models.h $(TOOL_TESTED)
FLAGS_test_tool = -Ibuild
# it has the library inside for its tables, and reads words: not worth optimising or sanitizing that once more
FLAGS_test_recipes = -O0 $(if $(findstring clang,$(UCC)),$(if $(findstring -fsanitize,$(UFLAGS)),-fsanitize-ignorelist=tests/test_recipes.ignore))
LIBS_test_tool = $(TOOL_TESTED) $(LIBDL)
# a program that ends without its last line has crashed
$(B)/%.log: $(B)/% FORCE
	@$(RUN) $< $(ARGS_$*) >$@ 2>&1; status=$$?; \
	if [ $$status -gt 1 ] || ! tail -n 1 $@ | grep -q '^$*: [0-9]* passed, [0-9]* failed$$'; then \
	  echo "crashed or stopped by a sanitizer: status $$status" >>$@; \
	  echo "$*: 0 passed, 1 failed" >>$@; \
	fi
FORCE:

known: build/plain/test_step
	build/plain/test_step tests/golden --known $(CASES) >build/known.txt
	cp build/known.txt tests/golden/known.txt

# what tests/errors.txt must say: look at the difference before it is committed
errors: build/plain/test_graph
	build/plain/test_graph tests/errors.txt --write >build/errors.txt
	cp build/errors.txt tests/errors.txt

# the streams of a case, measured by PyTorch on a pretended GPU: make golden OP=FAMILY/NAME
NULLGPU ?= ../shared/nullgpu/py
golden:
	@test -f "tests/cases/$(OP).vram" || { echo "OP=$(OP): there is no tests/cases/$(OP).vram" >&2; exit 1; }
	@test -x "$(NULLGPU)" || { echo "no $(NULLGPU) (NULLGPU=... names it)" >&2; exit 1; }
	"$(NULLGPU)" tools/measure_op.py tests/cases/$(OP).vram

truth: vram
	python3 tools/published.py
	python3 tools/published_serve.py
	python3 tools/published_llama.py
	python3 tools/published_beside.py
	python3 tools/gguf_header.py --check $(TRUTH)/gguf
	python3 tools/truth.py --all $(TRUTH)
	python3 tools/truth_finetune.py $(TRUTH)
	python3 tools/truth_generate.py $(TRUTH)
	python3 tools/events_diff.py $(TRUTH)
	python3 tools/truth_parallel.py $(TRUTH)

# the pictures of README.md and docs, which tests compare with those of now
pictures: vram
	./vram estimate resnet50 --train adamw --svg examples/resnet50.svg
	./vram plan resnet50 --batch 256 --train sgd_momentum --budget 7GiB --svg examples/plan.svg
	for how in 'ddp=8 --amp bf16' 'fsdp2=8,mp=bf16,reduce=f32' 'tp=8,sp=1,loss_parallel=1 --amp bf16' 'pp=8 --amp bf16 --rank 7'; do \
	  ./vram estimate tests/golden/parallel/llama8.vram --train adamw --parallel $$how --svg examples/llama_$${how%%=*}.svg || exit; done

# the picture of the tour that moves, drawn by a package: what it shows is compared, not made by tests
tour.svg: vram
	test -d build/tour || python3 -m venv build/tour
	build/tour/bin/pip install -q termtosvg==1.1.0
	build/tour/bin/python tools/tour_svg.py examples/tour.svg

# the table of a network of VRAM_NET_ lines (NAME: which; else the first), from the constants
net-report:
	@test -f "$(NET)" || { echo "NET=$(NET) is no header of VRAM_NET_ lines" >&2; exit 1; }
	@mkdir -p build
	@name=$(NAME); test "$$name" || \
	  name=$$(sed -n 's/.*VRAM_NET_BEGIN[A-Z_]*[(] *\([A-Za-z0-9_]*\) *,.*/\1/p' "$(NET)" | head -n 1); \
	grep -q "VRAM_NET_BEGIN[A-Z_]*[(] *$$name *," "$(NET)" || \
	  { echo "$(NET) has no network NAME=$$name" >&2; exit 1; }; \
	flags="-std=c99 -I. -DNET_FILE=\"$(abspath $(NET))\" -DNET_NAME=$$name"; \
	$(CC) $$flags -DNET_LINES -E -P tools/net_report.c | grep '^ *ROW' >build/net_rows.inc && \
	$(CC) $$flags -O0 -Ibuild -DNET_ROWS='"net_rows.inc"' -o build/net_report tools/net_report.c
	@build/net_report

build/bench: tests/bench.c vram.h
	@mkdir -p build
	$(CC) -std=c99 -O2 -o $@ tests/bench.c
build/bench_cuda: tests/cuda/bench.c vram.h vram_cuda.h
	@mkdir -p build
	$(CC) -std=c99 -O2 -o $@ tests/cuda/bench.c -ldl -lpthread
bench: vram build/bench build/bench_cuda
	sh tests/bench.sh

coverage:
	@+MAKE="$(MAKE)" sh tests/coverage.sh

format:
	clang-format -i src/*/*.[ch] tools/*.c tools/*.h tests/*.c tests/*.h tests/*/*.[ch] examples/*.[ch] examples/*/*.[ch]

# ---- install: only copies, so that the tree may be read-only once ./vram is built

VERSION = $(shell sed -n 's/^.define VRAM_VERSION "\(.*\)"$$/\1/p' vram.h)
HEADERS = vram.h vram_cuda.h
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
INCLUDEDIR ?= $(PREFIX)/include
DATADIR ?= $(PREFIX)/share
LIBDIR ?= $(PREFIX)/lib
# where `vram run` looks for it
PRELOADDIR ?= $(BINDIR)/../lib/vram
MANDIR ?= $(DATADIR)/man
DOCDIR ?= $(DATADIR)/doc/vram
PKGCONFIGDIR ?= $(DATADIR)/pkgconfig
CMAKEDIR ?= $(DATADIR)/cmake/vram
BASHCOMPDIR ?= $(DATADIR)/bash-completion/completions
ZSHCOMPDIR ?= $(DATADIR)/zsh/site-functions
FISHCOMPDIR ?= $(DATADIR)/fish/vendor_completions.d
PYTHONDIR ?= $(DATADIR)/vram
INSTALL ?= install

# paths below PREFIX are written relative to it, so that the installed tree can be moved
PC_INCLUDEDIR = $(subst $(PREFIX)/,$${prefix}/,$(INCLUDEDIR))
PC_LIBDIR = $(subst $(PREFIX)/,$${prefix}/,$(LIBDIR))
PC_PYTHONDIR = $(subst $(PREFIX)/,$${prefix}/,$(PYTHONDIR))
UP = $(shell echo '$(subst <$(PREFIX)/,,<$(1))' | sed 's:[^/][^/]*:..:g')
# $(call TO,FOLDER,OTHER,SELF): OTHER, from FOLDER on, which SELF names
TO = $(if $(and $(findstring <$(PREFIX)/,<$(2)),$(findstring <$(PREFIX)/,<$(1))),$(3)$(call UP,$(1))/$(subst <$(PREFIX)/,,<$(2)),$(2))
CMAKE_PATH = $(call TO,$(CMAKEDIR),$(1),$${CMAKE_CURRENT_LIST_DIR}/)
FILL = sed -e 's|@VERSION@|$(VERSION)|' -e 's|@PREFIX@|$(subst &,\&,$(PREFIX))|' \
  -e 's|@INCLUDEDIR@|$(subst &,\&,$(PC_INCLUDEDIR))|' \
  -e 's|@LIBDIR@|$(subst &,\&,$(PC_LIBDIR))|' -e 's|@LIBDL@|$(LIBDL)|' \
  -e 's|@INCLUDE@|$(subst &,\&,$(call CMAKE_PATH,$(INCLUDEDIR)))|' \
  -e 's|@LIBRARY@|$(subst &,\&,$(call CMAKE_PATH,$(LIBDIR)))|' \
  -e 's|@PYTHONDIR@|$(subst &,\&,$(PC_PYTHONDIR))|' \
  -e 's|@PYTHON@|$(subst &,\&,$(call TO,$(BINDIR),$(PYTHONDIR),))|'
PAGES = README.md CHANGELOG.md CONTRIBUTING.md LICENSE
# vram-export, vram-measure, vram-checkpoint: what the exporter is made of; its collection of models is a test's
PYTHON_TOOLS = export measure checkpoint
PYTHON_FILES = tools/measure_torch.py tools/checkpoint_torch.py $(filter-out tools/export_zoo.py,$(wildcard tools/export_*.py))
COMMANDS = vram $(PYTHON_TOOLS:%=vram-%)
EXAMPLES = $(wildcard examples/*.[ch] examples/*.cu examples/*.sh examples/*.svg examples/*.ipynb)
# what the documents lead to and is neither of these
LINKED = $(filter-out $(PAGES) $(wildcard docs/*.md) $(EXAMPLES), \
  $(sort $(shell awk -f tests/links.awk $(PAGES) docs/*.md | sed -n -e 's/#.*//' -e 's/^link [^ ]* //p')))

install: vram
	$(if $(strip $(foreach c,| ' " \ ` $$,$(findstring $(c),$(PREFIX)))),$(error PREFIX has one of | ' " \ ` $$, which no path here can have))
	@case "$(PREFIX)/" in /*) ;; *) echo "PREFIX=$(PREFIX) is no absolute path" >&2; exit 1 ;; esac
	$(INSTALL) -d "$(DESTDIR)$(BINDIR)" "$(DESTDIR)$(INCLUDEDIR)" "$(DESTDIR)$(LIBDIR)" "$(DESTDIR)$(MANDIR)/man1" "$(DESTDIR)$(MANDIR)/man7" \
	  "$(DESTDIR)$(PKGCONFIGDIR)" "$(DESTDIR)$(CMAKEDIR)" "$(DESTDIR)$(BASHCOMPDIR)" \
	  "$(DESTDIR)$(ZSHCOMPDIR)" "$(DESTDIR)$(FISHCOMPDIR)" "$(DESTDIR)$(DOCDIR)/docs" "$(DESTDIR)$(DOCDIR)/examples"
	$(INSTALL) -m 755 vram "$(DESTDIR)$(BINDIR)/vram"
	if [ -n "$(strip $(PRELOAD))" ]; then $(INSTALL) -d "$(DESTDIR)$(PRELOADDIR)" && \
	  $(INSTALL) -m 644 $(PRELOAD) "$(DESTDIR)$(PRELOADDIR)"; fi
	$(INSTALL) -m 644 $(HEADERS) "$(DESTDIR)$(INCLUDEDIR)"
	$(INSTALL) -m 644 libvram.a "$(DESTDIR)$(LIBDIR)"
	$(INSTALL) -m 644 tools/install/vram.zsh "$(DESTDIR)$(ZSHCOMPDIR)/_vram"
	for c in $(COMMANDS); do \
	  $(INSTALL) -m 644 tools/install/$$c.1 "$(DESTDIR)$(MANDIR)/man1/$$c.1" && \
	  $(INSTALL) -m 644 tools/install/vram.bash "$(DESTDIR)$(BASHCOMPDIR)/$$c" && \
	  $(INSTALL) -m 644 tools/install/vram.fish "$(DESTDIR)$(FISHCOMPDIR)/$$c.fish" || exit; done
	for p in $(HELP_PAGES); do $(INSTALL) -m 644 $$p "$(DESTDIR)$(MANDIR)/man$${p##*.}" || exit; done
	$(INSTALL) -m 644 $(PAGES) "$(DESTDIR)$(DOCDIR)"
	$(INSTALL) -m 644 docs/*.md "$(DESTDIR)$(DOCDIR)/docs"
	umask 022 && for f in $(EXAMPLES); do \
	  sed 's|#include "\.\./|#include "|' $$f >"$(DESTDIR)$(DOCDIR)/$$f" || exit; done
	for f in $(LINKED); do $(INSTALL) -d "$(DESTDIR)$(DOCDIR)/$${f%/*}" && \
	  $(INSTALL) -m 644 $$f "$(DESTDIR)$(DOCDIR)/$$f" || exit; done
	$(INSTALL) -d "$(DESTDIR)$(PYTHONDIR)"
	$(INSTALL) -m 644 $(PYTHON_FILES) "$(DESTDIR)$(PYTHONDIR)"
	umask 022 && for t in $(PYTHON_TOOLS); do \
	  $(FILL) -e "s|@MODULE@|$${t}_torch|" tools/install/vram-tool.py.in >"$(DESTDIR)$(BINDIR)/vram-$$t" && \
	  chmod 755 "$(DESTDIR)$(BINDIR)/vram-$$t" || exit; done
	umask 022 && $(FILL) tools/install/vram.pc.in >"$(DESTDIR)$(PKGCONFIGDIR)/vram.pc"
	umask 022 && for f in vramConfig vramConfigVersion; do \
	  $(FILL) tools/install/$$f.cmake.in >"$(DESTDIR)$(CMAKEDIR)/$$f.cmake" || exit; done

uninstall:
	rm -f $(HEADERS:%="$(DESTDIR)$(INCLUDEDIR)/%") "$(DESTDIR)$(ZSHCOMPDIR)/_vram" \
	  "$(DESTDIR)$(PKGCONFIGDIR)/vram.pc" "$(DESTDIR)$(CMAKEDIR)/vramConfig.cmake" \
	  "$(DESTDIR)$(CMAKEDIR)/vramConfigVersion.cmake" "$(DESTDIR)$(PRELOADDIR)/libvram_preload.so" "$(DESTDIR)$(LIBDIR)/libvram.a"
	for f in $(PAGES) docs/*.md $(EXAMPLES) $(LINKED); do rm -f "$(DESTDIR)$(DOCDIR)/$$f"; done
	! cd "$(DESTDIR)$(DOCDIR)" 2>/dev/null || for f in $(LINKED); do rmdir -p $${f%/*} 2>/dev/null || true; done
	for c in $(COMMANDS); do rm -f "$(DESTDIR)$(BINDIR)/$$c" "$(DESTDIR)$(MANDIR)/man1/$$c.1" \
	  "$(DESTDIR)$(BASHCOMPDIR)/$$c" "$(DESTDIR)$(FISHCOMPDIR)/$$c.fish"; done
	for p in $(notdir $(HELP_PAGES)); do rm -f "$(DESTDIR)$(MANDIR)/man$${p##*.}/$$p"; done
	for f in $(notdir $(PYTHON_FILES)); do \
	  rm -f "$(DESTDIR)$(PYTHONDIR)/$$f" "$(DESTDIR)$(PYTHONDIR)/__pycache__/$${f%.py}".*.pyc; done
	rmdir "$(DESTDIR)$(PYTHONDIR)/__pycache__" "$(DESTDIR)$(PYTHONDIR)" 2>/dev/null || true
	rmdir "$(DESTDIR)$(CMAKEDIR)" "$(DESTDIR)$(PRELOADDIR)" "$(DESTDIR)$(DOCDIR)/docs" \
	  "$(DESTDIR)$(DOCDIR)/examples" "$(DESTDIR)$(DOCDIR)" 2>/dev/null || true

dist:
	@test -e .git || { echo "make dist needs the git repository" >&2; exit 1; }
	git -c tar.umask=0022 archive --prefix=vram-$(VERSION)/ HEAD | gzip -9n >vram-$(VERSION).tar.gz

# a Debian source package, in build/deb: vram_$(VERSION).orig.tar.gz and the tree with debian/; `make deb`
# builds it as well (DEBFLAGS: further options of dpkg-buildpackage)
deb-source:
	@VERSION=$(VERSION) sh tools/packages/deb.sh
deb: deb-source
	cd build/deb/vram-$(VERSION) && env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS dpkg-buildpackage -us -uc $(DEBFLAGS)

clean:
	rm -rf build vram libvram_preload.so libvram.a vram-*.tar.gz

.PHONY: all web python wheel help check test test-all units known errors golden truth pictures tour.svg bench net-report coverage format \
  install uninstall dist deb-source deb clean FORCE
.SECONDARY:

# make help   lists the commands
# make demo   sets up, builds what it needs, exports two real models and runs them in ONNX Runtime
# make build  sets up, builds everything
# make check  sets up, builds, runs the C++ tests, one sample of each operator, and the linters: minutes
# make test   sets up, builds, runs all C++ and Python tests
# make operators   writes docs/operators.md
# make site   builds the documentation's site: open build/site/index.html
# make fuzz   builds the fuzz targets and runs each of them for some seconds
# make storm  exports random programs until it is stopped: make storm STORM="--seconds 600"
# make lint   every formatter, linter and rule of the house
# make wheel  builds the wheel and tries it in an environment of its own
# make wheels builds release wheels for PYTHONS="python3.11 python3.12" and TORCHES="2.13.0 2.15.0" into dist
# make format lets clang-format and ruff change the files
# make clean  removes what was built
PYTHON := .venv/bin/python
BUILD := build
OPS := test/python/ops
# Python starts twice as fast with the byte code of the packages.
export PYTHONDONTWRITEBYTECODE :=

# Says what a command does and how long it takes.
TIMED := @.ci/timed

SITE := .cache/site

.PHONY: help setup configure build demo check test operators site fuzz storm lint wheel wheels format clean

help:
	@sed -n 's/^# make/make/p' $(firstword $(MAKEFILE_LIST))

setup:
	$(TIMED) "Setting up .venv" .ci/setup

configure: setup
	@mkdir -p $(BUILD)
	$(TIMED) "Configuring $(BUILD)" bash -c 'cmake -S . -B $(BUILD) -G Ninja \
	  -DPython3_EXECUTABLE="$(CURDIR)/$(PYTHON)" -DONNX_NATIVE_WHEEL=OFF > $(BUILD).log || \
	  { cat $(BUILD).log; exit 1; }'

build: configure
	$(TIMED) "Building everything" cmake --build $(BUILD)

demo: configure
	$(TIMED) "Building the library that Python loads" cmake --build $(BUILD) --target onnx_native_plugin
	$(TIMED) "Exporting two models" env PYTHONPATH=$(BUILD)/python $(PYTHON) examples/demo.py

check: build
	$(TIMED) "C++ tests" ctest --test-dir $(BUILD) --output-on-failure
	$(TIMED) "One sample of each operator" env PYTHONPATH=$(BUILD)/python $(PYTHON) -m pytest -q -n 2 \
	  -m "" --deselect $(OPS)/test_ops.py::test_operator $(addprefix $(OPS)/test_,ops.py document.py schemas.py)
	$(TIMED) "Linting" .ci/lint

test: build
	$(TIMED) "C++ tests" ctest --test-dir $(BUILD) --output-on-failure
	$(TIMED) "Python tests" env PYTHONPATH=$(BUILD)/python $(PYTHON) -m pytest -n 2 --dist worksteal --durations=10

operators: build
	$(TIMED) "Writing docs/operators.md" env PYTHONPATH=$(BUILD)/python:test/python $(PYTHON) -m ops.document

$(SITE)/installed: website/requirements.txt
	$(TIMED) "Installing what builds the site" bash -c 'python3 -m venv $(SITE) && \
	  $(SITE)/bin/pip install -q --disable-pip-version-check --no-deps -r $<'
	@touch $@

# mkdocs-material prints an advertisement unless it is told not to.
site: $(SITE)/installed
	$(TIMED) "Building the site" env NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build -q --strict -f website/mkdocs.yml

fuzz: build
	$(TIMED) "Fuzzing" .ci/fuzz

storm: build
	$(TIMED) "Exporting random programs" env PYTHONPATH=$(BUILD)/python:test/fuzz $(PYTHON) -m storm $(STORM)

lint: build
	$(TIMED) "Linting" .ci/lint

wheel: build
	$(TIMED) "Building and trying the wheel" .ci/wheel

wheels: setup
	$(TIMED) "Building release wheels" .ci/wheels

format: setup
	clang-format -i $$(git ls-files '*.cpp' '*.h')
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

clean:
	rm -rf $(BUILD) $(BUILD).log dist

# make demo   sets up, builds, exports two real models, checks them and runs them in ONNX Runtime
# make test   sets up, builds, runs all C++ and Python tests
# make operators   writes docs/operators.md
# make fuzz   builds the fuzz targets and runs each of them for some seconds
# make storm  exports random programs until it is stopped: make storm STORM="--seconds 600"
# make lint   every formatter, linter and rule of the house
PYTHON := .venv/bin/python
BUILD := build
# Python starts twice as fast with the byte code of the packages.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup build demo test operators fuzz storm lint wheel format clean

setup:
	@.ci/setup

build: setup
	@cmake -S . -B $(BUILD) -G Ninja -DPython3_EXECUTABLE="$(CURDIR)/$(PYTHON)" -DONNX_NATIVE_WHEEL=OFF \
	  > $(BUILD).log || \
	  { cat $(BUILD).log; exit 1; }
	@cmake --build $(BUILD)

demo: build
	@PYTHONPATH=$(BUILD)/python $(PYTHON) examples/demo.py

test: build
	ctest --test-dir $(BUILD) --output-on-failure
	PYTHONPATH=$(BUILD)/python $(PYTHON) -m pytest -n 2 --dist loadgroup --durations=10

operators: build
	PYTHONPATH=$(BUILD)/python:test/python $(PYTHON) -m ops.document

fuzz: build
	@.ci/fuzz

storm: build
	@PYTHONPATH=$(BUILD)/python:test/fuzz $(PYTHON) -m storm $(STORM)

lint: build
	@.ci/lint

wheel: build
	@.ci/wheel

format: setup
	clang-format -i $$(git ls-files '*.cpp' '*.h')
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

clean:
	rm -rf $(BUILD) $(BUILD).log dist

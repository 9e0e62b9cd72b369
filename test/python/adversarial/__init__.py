"""Small programs that try to mislead a capture, one family per file."""

from adversarial.idioms import PROGRAMS as IDIOMS
from adversarial.layers import PROGRAMS as LAYERS
from adversarial.program import Program
from adversarial.sizes import PROGRAMS as SIZES
from adversarial.state import PROGRAMS as STATE
from adversarial.tensors import PROGRAMS as TENSORS

PROGRAMS: list[Program] = [*SIZES, *TENSORS, *STATE, *IDIOMS, *LAYERS]

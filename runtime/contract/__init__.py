"""What every kernel owes: cases with a float64 reference, and six gates that it has to pass.

`contract.run_contract` judges a backend; `masu bench --contract` prints what it says. Each gate is
itself tested first, with kernels that are wrong in one way (`planted.py`).
"""

# SPDX-License-Identifier: MIT
"""Print the polynomials of fortran/primitives/elementary.fypp, as mpmath finds them.

Each line has the name of a function, the polynomial's largest error over the interval, and its
coefficients from the constant one on. Chebyshev interpolation in 40 digits is close enough to the
best polynomial: one more coefficient costs less than a search for it.
"""

from collections.abc import Callable

import mpmath
from mpmath import mp, mpf

mp.dps = 40
#: As many as arguments up to 2^1024 need
N_DIGITS = 42

Function = Callable[[mpf], mpf]


def exponential(r: mpf) -> mpf:
    """(exp(r) - 1 - r)/r^2."""
    return (mpmath.expm1(r) - r) / r**2 if abs(r) > mpf(10) ** -12 else mpf(1) / 2 + r / 6


def logarithm(z: mpf) -> mpf:
    """(log((1 + s)/(1 - s))/s - 2)/z for z = s^2."""
    s = mpmath.sqrt(z)
    return (2 * mpmath.atanh(s) / s - 2) / z if z else mpf(2) / 3


def sine(z: mpf) -> mpf:
    """(sin(r)/r - 1)/z for z = r^2."""
    r = mpmath.sqrt(z)
    return (mpmath.sin(r) / r - 1) / z if z else -mpf(1) / 6


def cosine(z: mpf) -> mpf:
    """(cos(r) - 1 + z/2)/z^2 for z = r^2."""
    return (mpmath.cos(mpmath.sqrt(z)) - 1 + z / 2) / z**2 if z else mpf(1) / 24


def scaled_tail(k: int, top: int) -> Function:
    """(5/4 + a) exp(a^2/2) Phi(-a) - 1/2 as a function of u = (g a - k)/(a + k) on [-1, 1].

    Phi is the normal distribution, 0 <= a <= top, and g = 1 + 2 k/top. 5/4 makes it flat at 0.
    """
    g = 1 + mpf(2 * k) / top

    def function(u: mpf) -> mpf:
        a = k * (1 + u) / (g - u)
        tail = mpmath.erfc(a / mpmath.sqrt(2)) / 2
        return (mpf(5) / 4 + a) * mpmath.exp(a * a / 2) * tail - mpf(1) / 2

    return function


def show(name: str, function: Function, low: mpf, high: mpf, n: int, digits: int) -> None:
    """Print the polynomial with n coefficients."""
    coefficients, error = mpmath.chebyfit(function, [low, high], n, error=True)
    numbers = ", ".join(mp.nstr(c, digits) for c in reversed(coefficients))
    print(f"{name} (error {mp.nstr(error, 2)}): {numbers}\n")


def main() -> None:
    """Print everything, for real32 and for real64."""
    half = mpmath.log(2) / 2 * (1 + mpf(2) ** -18)
    root = ((mpmath.sqrt(2) - 1) / (mpmath.sqrt(2) + 1)) ** 2
    quarter = (mpmath.pi / 4 * (1 + mpf(2) ** -18)) ** 2
    zero = mpf(0)
    for kind, digits, counts, k, top in (
        ("real32", 10, (5, 3, 11), 4, 16),
        ("real64", 18, (10, 7, 23), 5, 40),
    ):
        print(kind)
        show("exp", exponential, -half, half, counts[0], digits)
        show("log", logarithm, zero, root, counts[1], digits)
        show("Phi", scaled_tail(k, top), mpf(-1), mpf(1), counts[2], digits)
    for name, n_sine, n_cosine in (("real32", 3, 3), ("real64", 6, 6)):
        show(f"sin {name}", sine, zero, quarter, n_sine, 18)
        show(f"cos {name}", cosine, zero, quarter, n_cosine, 18)
    mp.prec = 28 * N_DIGITS + 64
    digits = mpmath.floor(2 / mpmath.pi * mpf(2) ** (28 * N_DIGITS))
    print("2/pi in digits of 28 bits:")
    print([int(digits) >> 28 * (N_DIGITS - j) & 2**28 - 1 for j in range(1, N_DIGITS + 1)])


if __name__ == "__main__":
    main()

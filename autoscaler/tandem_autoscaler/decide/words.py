"""Numbers as people read them."""


def rounded(value: float, digits: int = 2) -> str:
    """`value` to so many significant digits, up to 10^12 without an exponent: 9,340."""
    return f"{float(f'{value:.{digits}g}'):,.12g}"

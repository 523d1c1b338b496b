"""Tools of the calculator: typed functions without side effects."""

from typing import Annotated

from pydantic import Field

from forge_cli import tool


@tool(read_only=True)
def calculate_fibonacci(
    n: Annotated[int, Field(ge=0, le=1000, description="Position in the sequence")],
) -> int:
    """Calculate the nth Fibonacci number."""
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


@tool(read_only=True)
def calculate_factorial(n: Annotated[int, Field(ge=0, le=500, description="The number")]) -> int:
    """Calculate the factorial of a number."""
    product = 1
    for factor in range(2, n + 1):
        product *= factor
    return product

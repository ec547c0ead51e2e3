"""The two-loop recursion of L-BFGS on the products of its vectors (Chen, Wang and Zhou 2014)."""

from crfqn.kernels import kernel


@kernel(counts=False)
def two_loops(order, products, onto, coefficients):
    """Compute the coefficients of H v; return that of v, and write those of the rows to `coefficients`, (rows,).

    order : int64 (pairs,), oldest first: pair i has the rows s = 2 i and y = 2 i + 1
    products : float64 (rows, rows), of rows y with each other, and with the rows s of the same or older pairs
    onto : float64 (rows,), the products of the rows with v
    """
    newest = order[-1]
    scale = products[2 * newest + 1, 2 * newest] / products[2 * newest + 1, 2 * newest + 1]
    coefficients[:] = 0.0
    for a in range(order.size - 1, -1, -1):
        s = 2 * order[a]
        left = onto[s]
        for b in range(a + 1, order.size):
            left += coefficients[2 * order[b] + 1] * products[2 * order[b] + 1, s]
        coefficients[s + 1] = -left / products[s + 1, s]
    for a in range(order.size):
        s = 2 * order[a]
        left = onto[s + 1]
        for b in range(order.size):
            left += coefficients[2 * order[b] + 1] * products[s + 1, 2 * order[b] + 1]
        left *= scale
        for b in range(a):
            left += coefficients[2 * order[b]] * products[s + 1, 2 * order[b]]
        coefficients[s] = -coefficients[s + 1] - left / products[s + 1, s]
    for a in range(order.size):
        coefficients[2 * order[a] + 1] *= scale
    return scale

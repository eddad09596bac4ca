"""The best that any policy could have done, computed with the whole of the streams at hand.

The room is called `offline`, not `optimum`, because `tidegate.optimum` is a public function and a
package of that name would hide it.
"""

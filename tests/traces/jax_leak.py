"""Two memory profiles of JAX (0.10.2 on CPU: jax_before.prof, jax_after.prof), between them three steps
of a program that keeps what it should not. usage: jax_leak.py BEFORE AFTER; folders in them were renamed afterwards."""
import sys

import jax, jax.numpy as jnp

kept = []

def init():
    return {"w": jnp.ones((256, 512)), "b": jnp.zeros((512,))}

def step(p, x):
    y = jnp.tanh(x @ p["w"] + p["b"])
    kept.append(y)
    return y

def main():
    p = init()
    x = jnp.ones((64, 256))
    step(p, x).block_until_ready()
    jax.profiler.save_device_memory_profile(sys.argv[1])
    for _ in range(3):
        step(p, x).block_until_ready()
    jax.profiler.save_device_memory_profile(sys.argv[2])
    print(jax.__version__, sum(a.nbytes for a in jax.live_arrays()))

main()

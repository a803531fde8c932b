"""After an interrupt, a lack of memory or a failed execution the process goes on."""

from .conftest import Program


def test_ctrl_c_during_a_step(program: Program) -> None:
    program("""
        import os, signal, threading, torch
        # A shell's background job, as CI may be, ignores the signal from its start.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        model = torch.nn.Linear(8, 8).to("tpu")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        def step():
            optimizer.zero_grad()
            loss = model(torch.ones(4, 8, device="tpu")).pow(2).mean()
            loss.backward()
            optimizer.step()
            return loss.item()
        before = step()
        for k in range(5):
            threading.Timer(0.05 + 0.013 * k, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            try:
                while True:
                    step()
            except KeyboardInterrupt:
                pass
        assert 0 <= step() < before
    """)


def test_an_interrupt_in_a_python_kernel_is_not_swallowed(program: Program) -> None:
    """A Meta kernel that raises usually means that the CPU's kernel is asked for the error; an interrupt is none."""
    program("""
        import warnings, torch
        warnings.simplefilter("ignore")
        library = torch.library.Library("aten", "IMPL")
        def interrupted(*_, **__):
            raise KeyboardInterrupt
        x = torch.rand(3, 3, device="tpu")
        for name, call in (("tril.out", torch.tril), ("native_dropout", lambda t: torch.native_dropout(t, 0.5, True))):
            library.impl(name, interrupted, "Meta", allow_override=True)
            try:
                call(x)
            except KeyboardInterrupt:
                pass
            else:
                raise AssertionError(f"the interrupt of {name} was swallowed")
        assert (x + 1).shape == (3, 3)
    """)


def test_out_of_memory_says_how_much(program: Program) -> None:
    program(
        """
        import torch
        x = torch.ones(1000, device="tpu")
        for ask in (lambda: torch.ones(1 << 26, device="tpu"), lambda: torch.zeros(1 << 26).to("tpu"),
                    lambda: x.expand(1 << 16, 1000) + 1):
            try:
                ask()
            except torch.OutOfMemoryError as e:
                assert "256.00 MiB" in str(e) or "250.00 MiB" in str(e), e
                assert "64.00 MiB" in str(e), e
            else:
                raise AssertionError("no error")
        assert (x + 1).sum().item() == 2000
        free, total = torch.tpu.mem_get_info()
        assert total == 1 << 26 and free > total - (1 << 20), (free, total)
        """,
        TORCH_TPU_SIM_HBM_BYTES=str(1 << 26),
    )


def test_a_failed_execution_names_the_op_and_changes_nothing(program: Program) -> None:
    for fault, error in (
        ("LoadedExecutable_Execute@3=INTERNAL", "RuntimeError"),
        ("LoadedExecutable_Execute@3=RESOURCE_EXHAUSTED", "OutOfMemoryError"),
        ("Client_Compile@2=INTERNAL", "RuntimeError"),
    ):
        done = program(
            """
            import torch
            x, count, errors = torch.zeros(3, device="tpu"), 0, []
            for _ in range(6):
                try:
                    x.add_(1)
                    count += 1
                except Exception as e:
                    errors.append(e)
                assert x.tolist() == [count] * 3
            [e] = errors
            print(type(e).__name__, e)
            """,
            TORCH_TPU_SIM_FAULT=fault,
        )
        assert done.stdout.startswith(error), done.stdout
        assert "aten::add" in done.stdout
        assert "injected fault" in done.stdout


def test_an_asynchronous_failure_is_told_when_the_value_is_read(program: Program) -> None:
    done = program(
        """
        import torch
        x = torch.zeros(3, device="tpu")
        y = x + 1
        z = y * 2
        try:
            z.tolist()
        except RuntimeError as e:
            print(e)
        assert (torch.zeros(3, device="tpu") + 1).tolist() == [1, 1, 1]
        """,
        TORCH_TPU_SIM_FAULT="LoadedExecutable_Execute@2=async:INTERNAL",
    )
    assert "injected fault" in done.stdout
    assert "aten::" in done.stdout


def test_an_asynchronous_failure_names_the_op_that_failed_and_its_line(program: Program) -> None:
    done = program(
        """
        import torch
        def double(x):
            return x * 2
        def late():
            x = torch.zeros(3, device="tpu")
            y = x + 1
            z = double(y)
            try:
                z.tolist()
            except RuntimeError as e:
                print(e)
        late()
        # Another line at the same place in other code, and the same code again.
        namespace = {"torch": torch}
        exec("def other(x):\\n\\n    return torch.exp(x)", namespace)
        for _ in range(3):
            try:
                namespace["other"](torch.zeros(3, device="tpu")).tolist()
            except RuntimeError as e:
                print(e)
        """,
        TORCH_TPU_SIM_FAULT="LoadedExecutable_Execute@2=async:INTERNAL;LoadedExecutable_Execute@7=async:INTERNAL",
    )
    late, other = done.stdout.splitlines()
    assert late.startswith(
        "aten::add.Tensor (issued at <string>:7) failed, whose result aten::mul.Tensor (issued at <string>:4) needed: "
    )
    assert other.startswith("aten::exp (issued at <string>:3) failed: ")


def test_a_failure_in_backward_names_the_line_of_the_call(program: Program) -> None:
    done = program(
        """
        import torch
        w = torch.ones(3, 3, device="tpu", requires_grad=True)
        def step():
            loss = (w @ w).sum()
            loss.backward()
        step()
        try:
            w.grad.tolist()
        except RuntimeError as e:
            print(e)
        """,
        TORCH_TPU_SIM_FAULT="LoadedExecutable_Execute@6=async:INTERNAL",
    )
    assert "(issued by autograd or another thread, after <string>:6) failed" in done.stdout

"""What the report sets beside the paper: its findings, and its published figures."""

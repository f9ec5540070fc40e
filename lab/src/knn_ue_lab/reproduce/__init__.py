"""The paper's tables and figures: a plan as data -> resumable cells -> statistics -> verdicts -> pages."""

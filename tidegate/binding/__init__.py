"""A spec meets real tables: which number stands for which value."""
